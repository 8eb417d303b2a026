#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read one document on stdin, keep it for validation against SCHEMA, print members.

usage: doc SCHEMA [PATH]...   PATH such as .tensors[0].name; TYPE(.path) prints the type's name,
LEN(.path) the number of elements, KEYS(.path) the keys
"""

import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import schemas


def member(document, path):
    for key, index in re.findall(r"\.([A-Za-z0-9_-]+)|\[(-?\d+)\]", path):
        document = document[key] if key else document[int(index)]
    return document


def show(document, wish):
    function, path = re.fullmatch(r"(?:(TYPE|LEN|KEYS)\()?([^()]*)\)?", wish).groups()
    try:
        value = member(document, path)
    except (KeyError, IndexError, TypeError):
        return "absent"
    if function == "TYPE":
        return type(value).__name__
    if function == "LEN":
        return str(len(value))
    if function == "KEYS":
        return " ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def main():
    text = sys.stdin.buffer.read().decode("utf-8")
    kept = pathlib.Path(os.environ["CASE_STATE"], "docs")
    name = sys.argv[1]
    (kept / f"{len(list(kept.iterdir())):03}-{name}").write_text(text, "utf-8")
    try:
        document = schemas.parse(text)
    except ValueError as e:
        print(f"not one JSON document: {e}")
        return 1
    if name not in schemas.LINES and document.get("schema") != name:
        print(f"schema is {document.get('schema')}")
    for wish in sys.argv[2:]:
        print(f"{wish}: {show(document, wish)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
