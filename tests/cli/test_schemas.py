#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schemas are schemas, refer to nothing that is not there, and refuse what they must."""

import json
import subprocess
import sys

import schemas

if not schemas.available():
    print("skipped: no jsonschema for this Python (Debian: python3-jsonschema)")
    sys.exit(77)

import jsonschema

failures = 0


def check(what, good):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}")


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


def resolves(reference, own, known):
    name, _, pointer = reference.partition("#")
    node = known.get(name or own)
    for key in pointer.split("/")[1:]:
        node = node.get(key) if isinstance(node, dict) else None
    return node is not None


known = schemas.load()
for name, schema in known.items():
    jsonschema.Draft202012Validator.check_schema(schema)
    check(f"{name}: $id ends in its name", schema["$id"].endswith("/" + name))
    for reference in references(schema):
        check(f"{name}: {reference}", resolves(reference, name, known))

done = subprocess.run([sys.argv[1], "ls", "--json", "/nonexistent"], capture_output=True, check=False)
text = done.stdout.decode("utf-8")
check(f"an error document is valid: {schemas.errors('h2d.error', text)}",
      schemas.errors("h2d.error", text) == [])
found = schemas.validator("h2d.error")

wrong = {
    "a wrong status": lambda d: d["error"].update(status=0),
    "a message that is missing": lambda d: d["error"].pop("message"),
    "a member that is not listed": lambda d: d["error"].update(extra=1),
    "a top member that is not listed": lambda d: d.update(extra=1),
    "a tool member that is not listed": lambda d: d["tool"].update(extra=1),
    "an environment member of the wrong type": lambda d: d["environment"]["kernel"].update(
        release=7),
    "another schema": lambda d: d.update(schema="h2d.ls"),
    "another major version": lambda d: d["schema_version"].update(major=2),
}
for what, change in wrong.items():
    document = json.loads(text)
    change(document)
    check(f"{what} is refused", len(list(found.iter_errors(document))) > 0)

check("a bare NaN is refused", schemas.errors("h2d.error", '{"a": NaN}')[0].startswith("not one"))
check("duplicates are refused", schemas.errors("h2d.error", '{"a":1,"a":2}')[0].startswith("not one"))
check("null needs a reason", list(schemas.unexplained({"a": None})) != [])
check("a reason needs null", list(schemas.unexplained({"a": 1, "a_why": "x"})) != [])
check("null with its reason is fine", list(schemas.unexplained({"a": None, "a_why": "x"})) == [])
print(f"{len(known)} schemas, {failures} failures")
sys.exit(failures > 0)
