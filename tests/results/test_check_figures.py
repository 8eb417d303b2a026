#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of README and docs are those of results/, and a planted drift is found."""
import json
import pathlib
import shutil
import tempfile

import rig

check = rig.Checks()
SCRIPT = rig.SCRIPTS / "check-figures"
done = rig.run(SCRIPT)
check("README and docs agree with results/", done.returncode == 0, done.stdout)
check("there are figures to check", " 0 figures" not in done.stdout)

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    (root / "docs").mkdir()
    (root / "results").mkdir()
    (root / "results/a.json").write_text(json.dumps({
        "ns": 16088123456, "word": "affected", "cells": [{"k": "x", "n": 1}, {"k": "y", "n": 3}],
        "base": 4, "unfit": None}))
    (root / "results/block.txt").write_text("$ x\ntook 3 s\n")

    def verdict(text):
        (root / "README.md").write_text(text)
        return rig.run(SCRIPT, "--root", root)

    mark = "<!-- = results/a.json#"
    good = {
        "a scaled number": f"took 16 088 ms{mark}/ns scale=1e-6 -->.",
        "decimals as in the text": f"took 16.1 s{mark}/ns scale=1e-9 -->.",
        "a word": f"is affected{mark}/word -->",
        "a picked element": f"n is 3{mark}/cells/[k=y]/n -->",
        "a fold over all": f"at most 3{mark}/cells/*/n max -->, at least 1{mark}/cells/*/n min -->",
        "two sources of one figure": f"3{mark}/cells/1/n -->{mark}/cells/[k=y]/n -->",
        "a quotient": f"is 4.0 times as fast{mark}/ns scale=1e-9 over=#/base digits=1 -->",
        "a count": f"{2}{mark}/cells count -->",
        "a block": "<!-- block results/block.txt -->\n```\n$ x\ntook 3 s\n```",
        "an excuse": "about 3 s to read <!-- not a result: a guess -->",
    }
    for what, text in good.items():
        done = verdict(text)
        check(f"{what} is accepted", done.returncode == 0, done.stdout)
    drifted = {
        "a number that drifted": f"took 16 089 ms{mark}/ns scale=1e-6 -->.",
        "a word that drifted": f"is clean{mark}/word -->",
        "the wrong element": f"n is 1{mark}/cells/[k=y]/n -->",
        "a block that drifted": "<!-- block results/block.txt -->\n```\n$ x\ntook 4 s\n```",
        "a time without a source": "it took 3 s",
        "a rate in a block without a source": "```\n1.5 GB/s\n```",
        "a ratio without a source": "it is 3.2 times as fast",
        "an excuse in another paragraph": "<!-- not a result: x -->\n\nit took 3 s",
    }
    for what, text in drifted.items():
        done = verdict(text)
        check(f"{what} is found", done.returncode == 1, f"{done.returncode} {done.stdout}")
    lost = {
        "a file that is not there": "3<!-- = results/b.json#/n -->",
        "a pointer to nothing": f"3{mark}/nothing -->",
        "a pick of nothing": f"3{mark}/cells/[k=z]/n -->",
        "a value that is null": f"3{mark}/unfit -->",
        "an unknown option": f"3{mark}/cells/1/n wish=1 -->",
    }
    for what, text in lost.items():
        done = verdict(text)
        check(f"{what} is named", done.returncode == 3, f"{done.returncode} {done.stdout}")

    # The same on our own README: one digit planted in a real figure.
    shutil.copytree(rig.ROOT / "results", root / "results", dirs_exist_ok=True)
    text = (rig.ROOT / "README.md").read_text("utf-8")
    check("our own README passes in the copy", verdict(text).returncode == 0)
    check("a digit changed in it is found", verdict(text.replace("328 s", "327 s", 1)).returncode == 1)
check.end()
