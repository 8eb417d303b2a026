#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of the tables is in help, manual and completion, and what the README and the docs say of
options exists."""

import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
H2D = sys.argv[1]
DASH = "\\-"  # as mdoc spells it
failures = 0


def check(what, good):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}")


def h2d(*words):
    return subprocess.run([H2D, *words], capture_output=True, text=True, check=True).stdout


def walk(commands, prefix=()):
    for command in commands:
        name = (*prefix, command["name"])
        yield name, command
        yield from walk(command["commands"], name)


def completed(script, words):
    """What the completion offers at the end of these words."""
    body = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(w) for w in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_h2d\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(["bash", "-c", body], capture_output=True, text=True, check=True)
    return done.stdout.split()


document = json.loads(h2d("help", "--json"))
script = h2d("help", "--completion", "bash")
overview = h2d("help")
common = document["common_options"]
options_of = {}
for name, command in walk(document["commands"]):
    options = command["options"] + common
    options_of[name] = {o["name"] for o in options}
    usage = h2d("help", *name)
    manual = h2d("help", "--man", name[0])
    if not command["commands"]:
        offered = completed(script, ["h2d", *name, "--"])
        for o in options:
            check(f"{name}: --{o['name']} is completed", f"--{o['name']}" in offered)
    check(f"{name}: help names the summary", command["summary"] in usage)
    check(f"{name[0]}: the overview lists it", re.search(rf"^  {name[0]} ", overview, re.M))
    for o in options:
        where = f"{' '.join(name)} --{o['name']}"
        check(f"{where}: in help", re.search(rf"--{o['name']}\b", usage))
        check(f"{where}: in the manual", f"Fl \\-{o['name'].replace('-', DASH)}" in manual)
        check(f"{where}: helps in sentences", o["help"].endswith("."))
        if o.get("choices"):
            values = completed(script, ["h2d", *name, f"--{o['name']}", ""])
            check(f"{where}: its values are completed", values == o["choices"])

offered = completed(script, ["h2d", ""])
check("commands are completed", offered == [c["name"] for c in document["commands"]])
check("the line of another program is completed as such",
      "true" in completed(script, ["h2d", "run", "-q", "--", "tru"]) and
      completed(script, ["h2d", "run", "-q", "--", "true", "--"]) == [])
check("sub-commands are completed", "evict" in completed(script, ["h2d", "cache", "e"]))

texts = [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")]
for text in texts:
    for line in text.read_text("utf-8").splitlines() if text.exists() else []:
        for words in re.findall(r"\bh2d ((?:[a-z]+ ?)+[^`|;&#]*)", line):
            parts = words.split()
            name = next((tuple(parts[:n]) for n in (2, 1) if tuple(parts[:n]) in options_of), None)
            if not name:
                continue
            for option in re.findall(r"(?<!\S)--([a-z-]+)", words.split(" -- ")[0]):
                check(f"{text.name}: 'h2d {words.strip()}' has --{option}",
                      option in options_of[name])
print(f"{sum(len(v) for v in options_of.values())} options, {failures} failures")
sys.exit(failures > 0)
