# SPDX-License-Identifier: Apache-2.0
"""The schemas of results/schema, as strict as the tests want them: members they do not list are
errors, although readers must accept them."""

import json
import pathlib
import warnings

# Described line by line, so without an envelope.
LINES = ("h2d.progress", "h2d.bench-event")

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent.parent / "results" / "schema"


def available():
    try:
        import jsonschema  # noqa: F401
    except ImportError:
        return False
    return True


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"duplicate key among {keys}")
    return dict(pairs)


def no_constants(name):
    raise ValueError(f"{name} is not JSON")


def parse(text):
    return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constants)


def strict(node):
    """Close every object that lists its members, but for those that are parts of another."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: strict(value) for key, value in node.items()}
    names_members = isinstance(node.get("properties"), dict) and "additionalProperties" not in node
    if names_members and node.get("$comment") != "composed":
        closed["unevaluatedProperties"] = False
    return closed


def load():
    return {
        path.name: strict(json.loads(path.read_text("utf-8")))
        for path in SCHEMAS.glob("*.schema.json")
    }


def validator(name):
    import jsonschema

    known = load()
    schema = known[f"{name}.schema.json"]
    try:
        import referencing

        registry = referencing.Registry().with_resources(
            (s["$id"], referencing.Resource.from_contents(s)) for s in known.values()
        )
        return jsonschema.Draft202012Validator(schema, registry=registry)
    except ImportError:  # before jsonschema 4.18
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            resolver = jsonschema.RefResolver(
                schema["$id"], schema, store={s["$id"]: s for s in known.values()}
            )
        return jsonschema.Draft202012Validator(schema, resolver=resolver)


def unexplained(node, path="$"):
    """Nulls without a reason and reasons without a null; metadata of a file may hold nulls."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from unexplained(item, f"{path}[{i}]")
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key.endswith("_why"):
            if key == "state_why":  # explains a state that is not the usual one
                continue
            if node.get(key[:-4], "absent") is not None:
                yield f"{path}.{key}: explains what is not null"
            continue
        if (value is None) != (f"{key}_why" in node) and key not in ("command", "state"):
            yield f"{path}.{key}: null without a reason, or a reason without null"
        if key != "metadata":
            yield from unexplained(value, f"{path}.{key}")


def errors(name, text):
    """What is wrong with a document of that schema; an empty list when nothing is."""
    try:
        document = parse(text)
    except ValueError as e:
        return [f"not one JSON document: {e}"]
    found = [
        f"${''.join(f'[{p!r}]' for p in e.absolute_path)}: {e.message[:300]}"
        for e in validator(name).iter_errors(document)
    ]
    if name != "h2d.progress":
        found += unexplained(document)
    if name not in LINES:
        if list(document)[:4] != ["schema", "schema_version", "tool", "environment"]:
            found.append("the document does not begin with the envelope")
    return found
