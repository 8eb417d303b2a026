#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sentences may say of a ratio: needs nothing that draws."""
import re
import sys

import rig

sys.path.insert(0, str(rig.SCRIPTS))
from h2dfig import verdicts  # noqa: E402

check = rig.Checks()
WORDS = ("faster", "slower", "neither")


def row(count, low, high):
    return {"n_count": count, "ci_low": low, "ci_high": high, "min": low - 0.1, "max": high + 0.1}


for count in range(1, 6):
    for low, high in ((1.1, 1.2), (0.8, 0.9), (0.9, 1.1)):
        said = verdicts.verdict(row(count, low, high), *WORDS)
        check(f"{count} pairs have no verdict", said == "too few pairs to tell", said)
        said = verdicts.spread(row(count, low, high))
        check(f"{count} pairs have no interval", "95 %" not in said and f"n={count}" in said, said)
    check(f"{count} samples have no interval", verdicts.interval(1, 2, count) == (None, None))
for (low, high), word in (((1.1, 1.2), "faster"), ((0.8, 0.9), "slower"), ((0.9, 1.1), "neither"), ((1, 1.1), "neither")):
    check(f"six pairs from {low} to {high}", verdicts.verdict(row(6, low, high), *WORDS) == word)
check("six pairs have an interval", "95 % interval 1.10 to 1.20" in verdicts.spread(row(6, 1.1, 1.2)))
check("six samples have an interval", verdicts.interval(1, 2, 6) == (1, 2))
check("without an interval there is none", not verdicts.sure({"n_count": 9}))
for ratio, ours, base, opposite in ((1.16, 2, 1, True), (0.9, 1, 2, True), (1.16, 1, 2, False), (0.9, 2, 1, False),
                                    (1.16, 1, 1, False), (1.16, None, 1, False), (1.16, 1, None, False)):
    said = verdicts.contradiction(ratio, ours, base)
    check(f"{ratio} times beside medians of {ours} and {base}", bool(said) == opposite, said)
# The command says the same of the same pairs.
header = (rig.ROOT / "bench/stats.h").read_text("utf-8")
least = re.search(r"H2D_INTERVAL_LEAST_COUNT = (\d+)", header)
check("as many as the command wants", least and int(least[1]) == verdicts.LEAST, least)
printer = (rig.ROOT / "cli/bench_print.c").read_text("utf-8")
check("in the words of the command", f'"{verdicts.FEW}"' in printer)
check.end()
