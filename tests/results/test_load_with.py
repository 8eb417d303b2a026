#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The adapter for other loaders: it speaks the protocol, its digests are h2d's own, and what cannot
be loaded is said in the protocol's words."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import rig

python = rig.interpreter()
check = rig.Checks()
h2d, mkckpt = sys.argv[1:3]
ADAPTER = rig.SCRIPTS / "load-with"


def talk(loader, file, verify=True, device="host", python=python):
    """The adapter's lines in answer to the whole protocol."""
    request = {"protocol": 1, "checkpoint": str(file), "files": [str(file)], "size_bytes": 0, "path": "external",
               "device": device, "options": {}, "verify": verify}
    lines = [request, {"command": "load"}] + [{"command": "verify"}] * verify
    done = subprocess.run([sys.executable, str(ADAPTER), loader], input="".join(json.dumps(x) + "\n" for x in lines),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "H2D_PYTHON": python})
    return [json.loads(line) for line in done.stdout.splitlines()], done


def own_digest(file):
    done = subprocess.run([h2d, "verify", str(file), "--device", "host", "--json", "--progress", "none"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["verify"]["xxh3_128"]


def make(file, *words):
    subprocess.run([mkckpt, *words, str(file)], check=True, stdout=subprocess.DEVNULL)
    return file


os.environ["H2D_PYTHON"] = python
done = rig.run(ADAPTER, "--list")
listed = {line["loader"]: line for line in map(json.loads, done.stdout.splitlines())}
check("all loaders are listed", len(listed) == 8, done.stderr)
check("who lacks one is told what installs it",
      ("scripts/python-env peers" in done.stderr) == any("unsupported" in v for v in listed.values()), done.stderr)
check("each has a version or a reason", all("version" in v or "unsupported" in v for v in listed.values()))

with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    files = {
        ".safetensors": make(root / "a.safetensors", "--size", "3MiB", "--tensors", "7", "--mixed"),
        ".gguf": make(root / "a.gguf", "--size", "3MiB", "--tensors", "7", "--mixed"),
        ".pt": make(root / "a.pt", "--size", "3MiB", "--tensors", "7", "--mixed"),
    }
    ran = 0
    for name, entry in listed.items():
        suffix = ".gguf" if name == "gguf" else ".pt" if name.startswith("torch") else ".safetensors"
        lines, done = talk(name, files[suffix])
        if "unsupported" in entry:
            check(f"{name}: what is missing is said", lines[0]["event"] == "error"
                  and lines[0]["kind"] == "unsupported" and len(lines) == 1, lines)
            continue
        ran += 1
        check(f"{name}: ready, loaded, verified", [x["event"] for x in lines] == ["ready", "loaded", "verified"],
              f"{lines} {done.stderr}")
        if len(lines) < 3:
            continue
        check(f"{name}: its bytes are h2d's", lines[2]["xxh3_128"] == own_digest(files[suffix]), lines[2])
        check(f"{name}: time goes forward", 0 < lines[1]["begin_ns"] < lines[1]["end_ns"])
        check(f"{name}: it says its version", lines[0]["version"] == entry["version"])
    check("at least one other loader is here", ran > 0, listed)

    lines, _ = talk("safetensors-numpy", files[".gguf"])
    check("another format is unsupported", lines[0].get("kind") == "unsupported" and "a.gguf" in lines[0]["message"])
    lines, _ = talk("safetensors-numpy", files[".safetensors"], device="cuda:0")
    check("a device is unsupported", lines[0].get("kind") == "unsupported")
    lines, _ = talk("safetensors-numpy", files[".safetensors"], verify=False)
    check("no digest unless asked", [x["event"] for x in lines] == ["ready", "loaded"], lines)
    data = bytearray(files[".safetensors"].read_bytes())
    (root / "cut.safetensors").write_bytes(data[: len(data) // 2])
    lines, _ = talk("safetensors-numpy", root / "cut.safetensors")
    check("a truncated file fails", lines[-1].get("kind") == "failed", lines)
    data[-1] ^= 1
    (root / "other.safetensors").write_bytes(data)
    lines, _ = talk("safetensors-numpy", root / "other.safetensors")
    check("one bit more or less is another digest", lines[-1]["xxh3_128"] != own_digest(files[".safetensors"]))
    lines, done = talk("safetensors-numpy", files[".safetensors"], python="/nonexistent/python")
    try:
        import xxhash  # noqa: F401
    except ImportError:
        check("without its modules it still speaks the protocol", lines[0].get("kind") == "unsupported", done.stderr)

    # The same through the runner: its own digest has to agree.
    matrix = {"schema": "h2d.bench-matrix", "schema_version": {"major": 1, "minor": 0}, "name": "adapter",
              "block_count": 1, "checkpoints": [{"name": "a", "file": str(files[".safetensors"])}],
              "paths": ["pread"], "cache_states": ["warm"],
              "external": [{"name": n, "command": [str(ADAPTER), n]} for n in ("safetensors-numpy", "gguf")]}
    (root / "matrix.json").write_text(json.dumps(matrix))
    done = subprocess.run([h2d, "bench", "run", str(root / "matrix.json"), "--out", str(root / "out"), "--lock",
                           f"test-load-with-{os.getpid()}", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, env={**os.environ, "H2D_PYTHON": python})
    check("the runner is content", done.returncode in (0, 77), done.stderr)
    result = json.loads((root / "out/result.json").read_text())
    cells = {c["key"]["loader"]: c for c in result["cells"]}
    sample = cells["safetensors-numpy"]["samples"][0]
    check("the sample is ok by the runner's own digest", sample["status"] == "ok"
          and sample["verify"]["method"] == "digest", sample)
    check("what does not fit is unsupported", cells["gguf"]["status"] == "unsupported", cells["gguf"])
check.end()
