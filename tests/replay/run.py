#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Situations of other people's machines: what `h2d doctor` must say of their captures.

usage: run.py H2D [NAME]...

The captures are written by hand, not recorded; h2d/about in each says after which report. Each must
give the first line, the status and the finding of situations.json, as a page and as a document, and
what `h2d probe process` says of the same process must be a valid document too.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import schemas

H2D = sys.argv[1]
failures = 0


def check(what, good):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}")


def run(*words):
    env = dict(os.environ, LC_ALL="C")
    return subprocess.run([H2D, *words], capture_output=True, text=True, env=env, check=False,
                          timeout=60)


def document(name, schema, *words):
    done = run(*words, "--json")
    if schemas.available():
        wrong = schemas.errors(schema, done.stdout)
        check(f"{name}: {schema}: {wrong}", not wrong)
    return json.loads(done.stdout), done.returncode


def situation(s):
    name, root = s["name"], str(HERE / "captures" / s["capture"])
    words = ["doctor", "--root", root] + ([str(s["pid"])] if "pid" in s else [])
    page = run(*words)
    first = page.stdout.split("\n", 1)[0]
    check(f"{name}: says\n  {first}\nand should say\n  {s['line']}", first == s["line"])
    check(f"{name}: status {page.returncode}, not {s['status']}", page.returncode == s["status"])
    for text in s.get("page", []):
        check(f"{name}: the page lacks '{text}':\n{page.stdout}", text in page.stdout)
    check(f"{name}: a reason on stderr goes with status 77, and only with it",
          bool(page.stderr) == (page.returncode == 77))
    d, status = document(name, "h2d.doctor", *words)
    check(f"{name}: the document has another status", status == s["status"])
    check(f"{name}: finds {d['verdict']['finding']}, not {s['finding']}",
          d["verdict"]["finding"] == s["finding"])
    check(f"{name}: confidence {d['verdict']['confidence']}",
          d["verdict"]["confidence"] == s["confidence"])
    check(f"{name}: the document has another line", d["verdict"]["line"] == s["line"])
    action = d["findings"][0]["action"]
    check(f"{name}: an affected machine is told what to do, what to expect and who says so",
          s["status"] != 1 or (action["text"] and action["expected_gain"] and action["source"]))
    if "process" in s:
        d, status = document(name, "h2d.process", "probe", "process", "--root", root,
                             str(s["pid"]))
        check(f"{name}: probe process says {d['verdict']['value']}, status {status}",
              (d["verdict"]["value"], status) == tuple(s["process"]))


def main():
    situations = json.loads((HERE / "situations.json").read_text("utf-8"))["situations"]
    wanted = sys.argv[2:]
    for s in situations:
        if not wanted or s["name"] in wanted:
            situation(s)
    if not wanted:
        used = {s["capture"] for s in situations}
        for root in sorted((HERE / "captures").iterdir()):
            check(f"{root.name}: no situation uses it", root.name in used)
            about = (root / "h2d" / "about").read_text("utf-8")
            check(f"{root.name}: is marked as written", about.startswith("Written by hand"))
            for path in root.rglob("*"):
                check(f"{path}: a private name", not re.search(r"/root/|@", f"/{path.relative_to(root)}"))
    if not schemas.available():
        print("note: no document was validated: no jsonschema for this Python")
    print(f"{len(situations)} situations, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
