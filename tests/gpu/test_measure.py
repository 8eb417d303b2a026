#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/measure-gpu on a fake device: it runs through, says that nothing was measured, and its
document is valid. usage: test_measure.py SOURCE BUILD FAKES BACKEND"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

source, build, fakes, backend = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(source) / "tests/cli"))
import schemas

with tempfile.TemporaryDirectory(prefix="h2d-gpu-", dir="/var/tmp") as scratch:
    out = pathlib.Path(scratch) / "figures.json"
    done = subprocess.run(
        [f"{source}/scripts/measure-gpu", "--build", build, "--dir", scratch, "--device", f"{backend}:0",
         "--small", "2MiB", "--size", "16MiB", "--repeat", "1", "-o", out],
        env=dict(os.environ, LD_LIBRARY_PATH=fakes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 77, done.returncode
    assert "nothing was measured" in done.stderr
    document = json.loads(out.read_text("utf-8"))
    if schemas.available():
        problems = schemas.errors("h2d.figures", out.read_text("utf-8"))
        assert not problems, problems
    names = [figure["name"] for figure in document["figures"]]
    exact = [name for name in names if ": byte-exact on" in name]
    assert len(exact) == 10, exact  # every path runs on the fake
    assert all(figure["note"].startswith("on a fake device") for figure in document["figures"])
    assert document["environment"]["device"]["hardware"].startswith("Fake ")
    none = subprocess.run([f"{source}/scripts/measure-gpu", "--build", build, "--dir", scratch, "--device", "cuda:9"],
                          env=dict(os.environ, LD_LIBRARY_PATH=fakes), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert none.returncode == 77 and "no GPU can be used" in none.stderr, none
