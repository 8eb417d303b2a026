#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures whose files were damaged: an answer or a clear no, never a crash, a hang or a document that
is none.

usage: hostile.py H2D [COUNT [SEED]]
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import schemas

H2D = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
NUMBERS = [b"18446744073709551615", b"-1", b"9999999999999999999999", b"0", b"0x10", b"1e9", b""]


def digits(data, rng):
    """Another number in place of one."""
    starts = [i for i, c in enumerate(data)
              if 48 <= c <= 57 and (not i or not 48 <= data[i - 1] <= 57)]
    if not starts:
        return data + rng.choice(NUMBERS)
    at = end = rng.choice(starts)
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    return data[:at] + rng.choice(NUMBERS) + data[end:]


def damage(data, rng):
    kind = rng.randrange(6)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        return data * rng.randrange(2, 50)
    if kind == 2:
        return rng.randbytes(rng.randrange(1, 5000))
    if kind == 3 and data:
        at = rng.randrange(len(data))
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 4:
        return b"A" * 20000 + data
    return digits(data, rng)


def one(rng, captures, tmp):
    source = rng.choice(captures)
    root = tmp / "capture"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root, symlinks=True)
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    changed = rng.sample(files, min(len(files), rng.randrange(1, 4)))
    for path in changed:
        if rng.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes(), rng))
    pids = [p.name for p in (root / "proc").iterdir() if p.name.isdigit()]
    calls = [["doctor", "--json", "--root", str(root)]]
    if pids:
        calls.append(["doctor", "--json", "--root", str(root), pids[0]])
        calls.append(["probe", "process", "--json", "--all", "--root", str(root), pids[0]])
    for call in calls:
        done = subprocess.run([H2D, *call], capture_output=True, timeout=30, check=False)
        what = f"{source.name}, {[str(p.relative_to(root)) for p in changed]}: {call[0]}"
        if done.returncode not in (0, 1, 3, 77):
            return f"{what}: status {done.returncode}: {done.stderr.decode('utf-8', 'replace')}"
        try:
            document = json.loads(done.stdout.decode("utf-8"))
        except ValueError as e:
            return f"{what}: {e}"
        if schemas.available():
            wrong = schemas.errors(document["schema"], done.stdout.decode("utf-8"))
            if wrong:
                return f"{what}: {wrong[:3]}"
    return None


def main():
    captures = sorted((HERE / "captures").iterdir())
    rng = random.Random(SEED)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="h2d-hostile-") as tmp:
        for i in range(COUNT):
            wrong = one(rng, captures, pathlib.Path(tmp))
            if wrong:
                failures += 1
                print(f"FAILED {i} of seed {SEED}: {wrong}")
    print(f"{COUNT} damaged captures, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
