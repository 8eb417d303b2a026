#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden rig itself: what its globs match and refuse."""

import sys

import run

CASES = [
    (["a*c"], ["abc"], -1),
    (["a*c"], ["abd"], 0),
    (["a?c", "..."], ["abc"], -1),
    (["...", "end"], ["1", "2", "end"], -1),
    (["...", "end"], ["1", "2"], 2),
    (["...", "x", "...", "y"], ["a", "x", "x", "b", "y"], -1),
    (["[a]"], ["[a]"], -1),
    (["[a]"], ["a"], 0),
    ([], [], -1),
    ([], ["x"], 0),
    (["a"], [], 0),
    (["..."], [], -1),
    (["a\\x1b"], ["a\\x1b"], -1),
]

failures = 0
for patterns, lines, want in CASES:
    got = run.glob_match(patterns, lines)
    if got != want:
        failures += 1
        print(f"FAILED: {patterns} on {lines}: {got}, expected {want}")
print(f"{len(CASES)} cases, {failures} failures")
sys.exit(failures > 0)
