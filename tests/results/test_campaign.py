#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One command from a checkpoint to a report: a real campaign, its figures and its page."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import rig

python = rig.interpreter()
check = rig.Checks()
h2d, mkckpt = (pathlib.Path(p) for p in sys.argv[1:3])
with tempfile.TemporaryDirectory(dir=h2d.parent) as folder:  # on the build's disk: a tmpfs is never cold
    root = pathlib.Path(folder)
    file = root / "model.safetensors"
    subprocess.run([mkckpt, "--size", "4MiB", "--tensors", "6", "--mixed", "--sync", file], check=True,
                   stdout=subprocess.DEVNULL)
    out = root / "out"
    command = [rig.SCRIPTS / "campaign", "--build", h2d.parent.parent, "--matrix", "quick", "--out", out,
               "--lock", f"test-campaign-{os.getpid()}", file]
    for turn in ("first", "second"):  # the second finds everything done
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        check(f"{turn}: it ends well", done.returncode == 0, done.stdout[-500:] + done.stderr)
    result = json.loads((out / "result.json").read_text())
    check("cells were measured", any(c["status"] == "ok" for c in result["cells"]), result["cells"])
    page = (out / "report.html").read_text("utf-8")
    ok = [c for c in result["cells"] if c["status"] == "ok"]
    for cell in ok:
        check("the median is in the page", f"{cell['statistics']['median_ns'] / 1e9:.4g}" in page)
    for ratio in result["ratios"]:
        check("the ratio is in the page", f"{ratio['speedup']['median']:.2f} times as fast" in page)
    for warning in result["warnings"]:
        check("the warnings are in the page", warning in page, warning)
    check("cells are held against the machine's limits", "% of page_cache_read" in page)
    check("what was begun is gone", not list(out.glob("*.part")))
    names = {p.name for p in (out / "figures").iterdir()}
    check("figures were drawn", {"path-ratios.svg", "path-ratios.csv", "load-times.png"} <= names, names)
    # Figure 5, from one load with a time per tensor.
    done = subprocess.run([h2d, "load", file, "--device", "host", "--per-tensor", "--json", "--progress", "none"],
                          stdout=subprocess.PIPE, text=True, check=True)
    (root / "load.json").write_text(done.stdout)
    done = rig.run(rig.SCRIPTS / "draw-figures", root / "load.json", "-o", root / "load", python=python)
    check("time per tensor is drawn", done.returncode == 0, done.stderr)
    tensors = json.loads((root / "load.json").read_text())["tensors"]
    wanted = sorted((t["name"], str(t["size_bytes"]), f"{t['elapsed_ns'] / 1e6:g}") for t in tensors)
    with open(root / "load/tensor-times.csv", newline="", encoding="utf-8") as f:
        have = sorted((r["what"], r["size_bytes"], f"{float(r['elapsed_ms']):g}") for r in csv.DictReader(f))
    check("the table of figure 5 is the document's", have == wanted, f"{have} {wanted}")

    done = subprocess.run([rig.SCRIPTS / "campaign", "--matrix", "unheard-of", "--build", h2d.parent.parent],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    check("an unknown matrix is named", done.returncode == 3 and "unheard-of" in done.stderr, done.stderr)
    for script in ("campaign", "quickstart"):  # before anything is installed or built
        done = subprocess.run([rig.SCRIPTS / script, "unheard-of.safetensors"], cwd=root, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        check(f"{script} names a missing checkpoint", done.returncode == 3 and "unheard-of" in done.stderr, done.stderr)
    done = subprocess.run([rig.SCRIPTS / "campaign", "--wish"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    check("an unknown option is usage", done.returncode == 2)
check.end()
