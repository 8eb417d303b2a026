#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every document under results/ is valid against the schema that it names; a document that names
none, or an unknown one, or another major version, is an error, as is a log that is not JSON lines."""
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import schemas  # noqa: E402

if not schemas.available():
    print("skipped: no jsonschema for this Python (Debian: python3-jsonschema)")
    sys.exit(77)

KNOWN = {name[: -len(".schema.json")] for name in schemas.load()}


def problems(path):
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        bad = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                schemas.parse(line)
            except ValueError as e:
                bad.append(f"line {number}: {e}")
        return bad
    try:
        document = schemas.parse(text)
    except ValueError as e:
        return [f"not one JSON document: {e}"]
    name = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in KNOWN:
        return [f"names no schema of results/schema: {name!r}"]
    return schemas.errors(name, text)


def refuses(change):
    """The same check, on a committed document that was spoilt."""
    document = json.loads((ROOT / "results/window-law/index.json").read_text("utf-8"))
    change(document)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "spoilt.json"
        path.write_text(json.dumps(document), "utf-8")
        return bool(problems(path))


documents = sorted(p for p in (ROOT / "results").rglob("*.json*")
                   if p.suffix in (".json", ".jsonl") and "schema" not in p.relative_to(ROOT).parts)
documents.append(pathlib.Path(__file__).resolve().parent / "campaign.json")
failures = 0
for path in documents:
    for problem in problems(path)[:5]:
        failures += 1
        print(f"FAILED: {path.relative_to(ROOT)}: {problem}")
planted = {
    "no schema": lambda d: d.pop("schema"),
    "an unknown schema": lambda d: d.update(schema="h2d.unheard-of"),
    "another major version": lambda d: d["schema_version"].update(major=2),
    "a member that is not listed": lambda d: d["runs"][0].update(extra=1),
    "a run without its state": lambda d: d["runs"][0].pop("state"),
}
for what, change in planted.items():
    if not refuses(change):
        failures += 1
        print(f"FAILED: {what} is not refused")
if len(documents) < 2:
    failures += 1
    print("FAILED: there are no results")
print(f"{len(documents)} documents, {failures} failures")
sys.exit(failures > 0)
