#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures whose files were damaged: an answer or a clear no, never a crash, a hang or a document that
is none.

usage: hostile.py H2D [COUNT [SEED [SECONDS]]]

After SECONDS (120) it ends early and says how far it came, so that its time is bounded on any
machine; the seed gives the same captures again.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import schemas

H2D = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 120
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


def spoil(root, rng):
    """Damage one to three files; what they held, to be put back."""
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    chosen = rng.sample(files, min(len(files), rng.randrange(1, 4)))
    before = {path: path.read_bytes() for path in chosen}
    for path, data in before.items():
        if rng.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(damage(data, rng))
    return before


def one(rng, roots):
    root = rng.choice(roots)
    before = spoil(root, rng)
    try:
        return look(root, before)
    finally:
        for path, data in before.items():
            path.write_bytes(data)


def look(root, changed):
    pids = [p.name for p in (root / "proc").iterdir() if p.name.isdigit()]
    calls = [["doctor", "--json", "--root", str(root)]]
    if pids:
        calls.append(["doctor", "--json", "--root", str(root), pids[0]])
        calls.append(["probe", "process", "--json", "--all", "--root", str(root), pids[0]])
    for call in calls:
        what = f"{root.name}, {[str(p.relative_to(root)) for p in changed]}: {call[0]}"
        try:
            done = subprocess.run([H2D, *call], capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return f"{what}: it hangs"
        if done.returncode not in (0, 1, 3, 5, 77):
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
    rng = random.Random(SEED)
    failures = done = 0
    end = time.monotonic() + SECONDS
    # Copied once, in memory where that is a file system: files are small and many.
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="h2d-hostile-", dir=memory) as tmp:
        roots = []
        for source in sorted((HERE / "captures").iterdir()):
            roots.append(pathlib.Path(tmp) / source.name)
            shutil.copytree(source, roots[-1], symlinks=True)
        while done < COUNT and time.monotonic() < end:
            wrong = one(rng, roots)
            done += 1
            if wrong:
                failures += 1
                print(f"FAILED {done - 1} of seed {SEED}: {wrong}", flush=True)
    print(f"{done} of {COUNT} damaged captures, {failures} failures")
    return failures > 0 or not done


if __name__ == "__main__":
    sys.exit(main())
