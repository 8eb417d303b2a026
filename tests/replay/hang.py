#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`h2d doctor` where files of /proc and /sys hang: it ends, and says what it did not see.

usage: hang.py H2D HANG.so
"""

import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import schemas

H2D, HANG = sys.argv[1], sys.argv[2]
failures = 0


def check(what, good):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}")


def doctor(paths, *words):
    """It has ten seconds; the bound here only tells a hang from a busy machine."""
    env = dict(os.environ, LC_ALL="C", LD_PRELOAD=HANG, HANG_AT=":".join(paths))
    return subprocess.run([H2D, "doctor", "--no-measure", *words], capture_output=True,
                          text=True, env=env, check=False, timeout=120)


def main():
    pid = os.getpid()
    maps = f"/proc/{pid}/"
    devices = "/sys/bus/pci/devices"
    modules = f"/lib/modules/{platform.release()}"

    page = doctor([maps], str(pid))
    first = page.stdout.split("\n", 1)[0]
    check(f"a process that hangs: {first}", first.startswith("Cannot look at the process: "))
    check(f"it says where it hung:\n{page.stdout}",
          f"reading what process {pid} maps did not end within" in first)
    check(f"status {page.returncode}", page.returncode == 77)
    check("the rest was seen", "\nHere\n  kernel " + platform.release() in page.stdout)
    check("what to do", f"cat /proc/{pid}/wchan" in page.stdout)

    done = doctor([maps, devices, modules], "--json", str(pid))
    check(f"everything hangs: status {done.returncode}: {done.stderr}", done.returncode == 77)
    if schemas.available():
        wrong = schemas.errors("h2d.doctor", done.stdout)
        check(f"h2d.doctor: {wrong}", not wrong)
    d = json.loads(done.stdout)
    for what in "the process: ", "the machine's devices", "the kernel's driver: reading its amdgpu":
        check(f"unseen lacks '{what}': {d['unseen']}",
              any(u.startswith(what) and " did not end within " in u for u in d["unseen"]))
    check("it does not say that there is no GPU",
          "no_gpu" not in [f["id"] for f in d["findings"]])
    check("it says that the machine hangs",
          "machine_hangs" in [f["id"] for f in d["findings"]])
    print(f"{failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
