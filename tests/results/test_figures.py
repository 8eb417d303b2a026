#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures: the same bytes twice, data equal to the document's, failed cells drawn, bad input refused."""
import copy
import csv
import json
import pathlib
import tempfile

import rig

python = rig.interpreter()
check = rig.Checks()
SCRIPT = rig.SCRIPTS / "draw-figures"
SHIPPED = rig.ROOT / "results/lab/shipped.json"
STATES = rig.ROOT / "results/reference/kernel-states.json"
CAMPAIGN = pathlib.Path(__file__).resolve().parent / "campaign.json"
LOG_AXES = r"""
import sys
sys.path.insert(0, sys.argv[1])
from h2dfig import style

def draw():
    figure, ((axis,),) = style.canvas(3)
    axis.plot([0.15, 0.9, 1.2], [0.5, 1, 300])
    axis.set_xscale("log")
    axis.set_yscale("log")
    return figure

print(style.Figure("x", r"$\frac$", [], [], [], draw, "").render()[0])
"""


def draw(out, *files):
    return rig.run(SCRIPT, *files, "-o", out, python=python)


def table(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def spoilt(root, change):
    document = json.loads(SHIPPED.read_text("utf-8"))
    change(document)
    path = root / "spoilt.json"
    path.write_text(json.dumps(document))
    return draw(root / "spoilt", path)


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    for where in ("one", "two"):
        done = draw(root / where, SHIPPED, STATES)
        check("figures are drawn", done.returncode == 0, done.stderr)
    names = sorted(p.name for p in (root / "one").iterdir())
    check("four files of each figure", len(names) == 4 * len({n.split(".")[0] for n in names}), names)
    for name in names:
        check(f"{name} is the same twice",
              (root / "one" / name).read_bytes() == (root / "two" / name).read_bytes())

    done = rig.run("-c", LOG_AXES, rig.SCRIPTS, python=python)
    check("a title with dollar signs is drawn as it is", "<!-- $\\frac$ (quoted) -->" in done.stdout, done.stderr)
    check("ticks of log axes are numbers", "<!-- 0.2 -->" in done.stdout and "<!-- 1 -->" in done.stdout
          and "mathdefault" not in done.stdout)

    done = rig.run(SCRIPT, "--committed", "-o", root / "again", python=python)
    check("the committed figures are drawn again", done.returncode == 0, done.stderr)
    committed = {p.name: p for p in (rig.ROOT / "docs/figures").iterdir() if p.name != "figures.json"}
    drawn = {p.name: p for p in (root / "again").iterdir()}
    check("the same files are there", set(committed) == set(drawn), set(committed) ^ set(drawn))
    for name in set(committed) & set(drawn):
        if not name.endswith(".png"):  # packed by whatever zlib is here
            check(f"docs/figures/{name} is what its data gives",
                  committed[name].read_bytes() == drawn[name].read_bytes())

    # The data behind figure 1, worked out here again.
    lab = json.loads(SHIPPED.read_text("utf-8"))
    wanted = {(k["release"], c["filesystem"], c["state"].replace("-", "_")): c["elapsed_ns"] / 1e6
              for k in lab["kernels"] for c in k["cells"]
              if c["permission"] == "vma" and c["state"] in ("ro-present", "rw-absent", "rw-present")}
    rows = [r for r in table(root / "one/kernel-states.csv") if "shipped" in r["document"]]
    have = {(r["group"].split(",")[0], r["panel"], r["case"]): float(r["median_ms"]) for r in rows}
    check("the table of figure 1 is the document's", have == wanted)
    windows = sum(c["windows"] or 0 for k in lab["kernels"] for c in k["cells"])
    mine = [r for r in table(root / "one/windows.csv") if "shipped" in r["document"]]
    check("the table of figure 4 is the document's", sum(int(r["windows"] or 0) for r in mine) == windows > 0)
    quoted = [r for r in table(root / "one/kernel-states.csv") if "reference" in r["document"]]
    check("the published states stand beside ours", len(quoted) == 9)
    svg = (root / "one/kernel-states.svg").read_text("utf-8")
    check("the figure names its sources", "QUOTED" in svg and "sha256" in svg and lab["tool"]["git"] in svg)
    check("it is described", "16\u202f088 ms" in (root / "one/kernel-states.txt").read_text("utf-8"))

    done = draw(root / "bench", CAMPAIGN)
    check("a campaign is drawn", done.returncode == 0, done.stderr)
    campaign = json.loads(CAMPAIGN.read_text("utf-8"))
    ratios = table(root / "bench/path-ratios.csv")
    failed = {c["status"] for c in campaign["cells"]} - {"ok"}
    check("cells that failed are in the table", {r["status"] for r in ratios} - {"ok"} == failed != set())
    text = (root / "bench/path-ratios.txt").read_text("utf-8")
    check("and in the description", "did not fit" in text and "invalid" in text, text)
    check("every cell has a row", len(ratios) == len(campaign["cells"]))
    for ratio in campaign["ratios"]:
        check("a ratio is the document's", any(r["speedup"] == str(ratio["speedup"]["median"]) for r in ratios))
    resident = [p for p in (root / "bench").glob("resident-*.csv")]
    check("resident sets are drawn over time", len(resident) == 1 and len(table(resident[0])) > 3)
    svg = resident[0].with_suffix(".svg").read_text("utf-8")
    check("the strip of phases is explained", all(f"<!-- {t} -->" in svg for t in ("strip at the top, phase:", "open", "transfer")))
    check("the legend has only what is drawn", "<!-- anonymous -->" in svg and "<!-- swap -->" not in svg
          and "<!-- shared -->" not in svg)
    check("what is not drawn is named", "<!-- Not drawn: eager (did not fit)" in svg)
    times = table(root / "bench/load-times.csv")
    ok = next(c for c in campaign["cells"] if c["status"] == "ok")
    row = next(r for r in times if r["path"] == ok["key"]["path"])
    check("times are the document's", float(row["median_s"]) == ok["statistics"]["median_ns"] / 1e9)

    # Of three samples there is no interval, in no table; and swap is in the legend where it was used.
    few = copy.deepcopy(campaign)
    for ratio in few["ratios"]:
        ratio["speedup"]["n_count"] = 3
    for cell in few["cells"]:
        if "statistics" in cell:
            cell["statistics"]["n_count"] = 3
        for sample in cell["samples"]:
            if sample.get("memory"):
                series = sample["memory"]["series"]
                series["swap_bytes"] = [1 << 20] * len(series["swap_bytes"])
    (root / "few.json").write_text(json.dumps(few), "utf-8")
    done = draw(root / "few", root / "few.json")
    check("a campaign of few samples is drawn", done.returncode == 0, done.stderr)
    for name in ("path-ratios", "load-times"):
        left = [r for r in table(root / f"few/{name}.csv") if any(v for k, v in r.items() if k.startswith("ci_"))]
        check(f"{name}.csv has no interval of three samples", not left, left)
    check("and the words say so", "too few pairs to tell" in (root / "few/path-ratios.txt").read_text("utf-8"))
    svg = next((root / "few").glob("resident-*.svg")).read_text("utf-8")
    check("swap that was used is in the legend", "<!-- swap -->" in svg)
    # Six samples have one.
    for ratio in few["ratios"]:
        ratio["speedup"]["n_count"] = 6
    (root / "few.json").write_text(json.dumps(few), "utf-8")
    draw(root / "six", root / "few.json")
    check("six pairs have an interval", any(r["ci_low"] for r in table(root / "six/path-ratios.csv")))

    refused = {
        "another major version": (3, lambda d: d["schema_version"].update(major=2)),
        "an unknown schema": (3, lambda d: d.update(schema="h2d.unheard-of")),
        "a negative time": (3, lambda d: d["kernels"][0]["cells"][0].update(elapsed_ns=-1)),
        "no cells": (3, lambda d: d["kernels"][0].pop("cells")),
    }
    for what, (status, change) in refused.items():
        done = spoilt(root, copy.copy(change))
        check(f"{what} is refused", done.returncode == status and "spoilt.json" in done.stderr,
              f"{done.returncode} {done.stderr}")
    (root / "spoilt.json").write_text('{"schema": "h2d.lab", "x": NaN}')
    check("NaN is refused", draw(root / "n", root / "spoilt.json").returncode == 3)
    (root / "spoilt.json").write_text('{"schema": "h2d.l')
    check("half a document is refused", draw(root / "n", root / "spoilt.json").returncode == 3)
    done = draw(root / "n", rig.ROOT / "results/reference/kernel-versions.json")
    check("nothing to draw is said", done.returncode == 77 and "nothing" in done.stderr)
check.end()
