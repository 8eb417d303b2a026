# SPDX-License-Identifier: Apache-2.0
"""Read documents: only schemas and major versions that are known, and where they came from."""
import hashlib
import json
import math
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMAS = ROOT / "results" / "schema"
MAJOR = 1


class Unusable(Exception):
    """A document that cannot be read as one of ours; the message says why."""


def _pairs(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"duplicate key among {keys}")
    return dict(pairs)


def _constant(name):
    raise ValueError(f"{name} is not JSON")


def number(value):
    """A count of a document: whole numbers beyond 2^53 are strings of digits there."""
    if isinstance(value, str):
        value = int(value)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Unusable(f"not a number: {value!r}")
    return value


class Document:
    """One results file: its members by [], and what a footer says about it."""

    def __init__(self, path):
        self.path = Path(path)
        try:
            raw = self.path.read_bytes()
            self.json = json.loads(raw.decode("utf-8"), object_pairs_hook=_pairs,
                                   parse_constant=_constant)
        except OSError as e:
            raise Unusable(f"{path}: {e.strerror}") from e
        except ValueError as e:
            raise Unusable(f"{path}: not a JSON document: {e}") from e
        self.sha256 = hashlib.sha256(raw).hexdigest()
        if not isinstance(self.json, dict) or not isinstance(self.json.get("schema"), str):
            raise Unusable(f"{path}: names no schema")
        self.schema = self.json["schema"]
        if not (SCHEMAS / f"{self.schema}.schema.json").exists():
            raise Unusable(f"{path}: unknown schema {self.schema}")
        major = self.json.get("schema_version", {}).get("major")
        if major != MAJOR:
            raise Unusable(f"{path}: {self.schema} version {major}, known is {MAJOR}")
        self._validate()

    def _validate(self):
        try:
            import jsonschema
            import referencing
        except ImportError:
            return
        known = [json.loads(p.read_text("utf-8")) for p in SCHEMAS.glob("*.schema.json")]
        registry = referencing.Registry().with_resources(
            (s["$id"], referencing.Resource.from_contents(s)) for s in known)
        schema = json.loads((SCHEMAS / f"{self.schema}.schema.json").read_text("utf-8"))
        found = jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(self.json)
        first = next(found, None)
        if first is not None:
            where = "/".join(str(p) for p in first.absolute_path)
            raise Unusable(f"{self.path}: /{where}: {first.message[:200]}")

    def __getitem__(self, key):
        return self.json[key]

    def get(self, key, default=None):
        return self.json.get(key, default)

    @property
    def name(self):
        """The path as a reader of the repository knows it."""
        try:
            return str(self.path.resolve().relative_to(ROOT))
        except ValueError:
            return self.path.name

    @property
    def quoted(self):
        return self.json.get("quoted") is True

    def machine(self):
        """Kernel, processor and devices in a few words each."""
        env = self.json["environment"]
        if self.quoted:
            return ["machine of the source"]
        words = []
        kernel = env.get("kernel")
        if isinstance(kernel, dict):
            kernel = kernel.get("release")
        if kernel:
            words.append(f"kernel {kernel}")
        cpu = env.get("cpu")
        if isinstance(cpu, dict):
            words.append(f"{cpu.get('model')}, {cpu.get('allowed_count')} CPUs")
        elif cpu:
            words.append(f"{cpu}, {env.get('cpu_count')} CPUs")
        for driver in ("amdgpu", "nvidia"):
            if isinstance(env.get(driver), dict) and env[driver].get("version"):
                words.append(f"{driver} {env[driver]['version']}")
        gpus = env.get("gpus") or []
        words.append(f"{len(gpus)} GPUs" if gpus else "no GPU")
        return words

    def date(self):
        if self.quoted:
            return f"read {self.json['read_on']}"
        campaign = self.json.get("campaign", {})
        return (campaign.get("started_utc") or self.json["environment"].get("time_utc")
                or self.json.get("date") or "undated")

    def tool(self):
        tool = self.json["tool"]
        build = tool.get("h2d", tool)
        git = build.get("git")
        words = [tool["name"] if tool["name"] != "h2d" else f"h2d {tool['command'] or ''}".strip()]
        if git:
            words.append(f"git {git}{'+' if build.get('git_dirty') else ''}")
        return words

    def provenance(self):
        """Lines for the foot of a figure and for its metadata."""
        lines = [f"{self.name} · sha256 {self.sha256[:12]} · {self.schema} "
                 f"{self.json['schema_version']['major']}.{self.json['schema_version']['minor']}"]
        if self.quoted:
            sources = "; ".join(s["where"] for s in list(self.json["sources"].values())[:3])
            lines.append(f"QUOTED, not measured by h2d · {self.date()} · {sources}")
        else:
            lines.append(" · ".join(self.tool() + [self.date()] + self.machine()))
        return lines
