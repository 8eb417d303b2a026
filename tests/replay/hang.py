#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`h2d doctor` where files of /proc and /sys hang, where a part of it dies and where no process can be
started: it ends, says what it did not see and why, and says of nothing else that it hangs.

usage: hang.py H2D HANG.so
"""

import errno
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


def doctor(paths, *words, **more):
    """It has ten seconds; the bound here only tells a hang from a busy machine."""
    env = dict(os.environ, LC_ALL="C", LD_PRELOAD=HANG, HANG_AT=":".join(paths), **more)
    return subprocess.run([H2D, "doctor", "--no-measure", *words], capture_output=True,
                          text=True, env=env, check=False, timeout=120)


def ids(document):
    return [f["id"] for f in document["findings"]]


def says(text, *parts):
    for part in parts:
        check(f"it does not say '{part}':\n{text}", part in text)
    check(f"nothing hangs:\n{text}", "hangs" not in text and "did not end within" not in text)
    check(f"the kernel:\n{text}", "\n  kernel " + platform.release() in text)


def no_process():
    page = doctor([], FORK_ERRNO=str(errno.EAGAIN))
    why = "no process could be started for it: Resource temporarily unavailable (EAGAIN)"
    check(f"status {page.returncode}", page.returncode == 77)
    says(page.stdout, "Cannot tell which GPUs this machine has: " + why, "  - the process: " + why,
         "the kernel's log: " + why, "the kernel's driver: " + why, "ulimit -u")
    page = doctor([], "1", FORK_ERRNO=str(errno.ENOMEM))
    check(f"its first line:\n{page.stdout}",
          page.stdout.startswith("Cannot look at the process: no process could be started for it: "))
    says(page.stdout, "(ENOMEM)")
    check(f"what to do:\n{page.stdout}", "wchan" not in page.stdout)
    done = doctor([], "--json", "1", FORK_ERRNO=str(errno.EAGAIN))
    if schemas.available():
        wrong = schemas.errors("h2d.doctor", done.stdout)
        check(f"h2d.doctor: {wrong}", not wrong)
    d = json.loads(done.stdout)
    check(f"findings {ids(d)}", ids(d)[:2] == ["process_unseen", "machine_unseen"])
    check("a release", d["machine"]["release"] == platform.release())
    capture = str(HERE / "captures" / "lustre-h20")
    env = dict(os.environ, LC_ALL="C")
    plain = subprocess.run([H2D, "doctor", "--root", capture], capture_output=True, text=True,
                           env=env, check=False, timeout=120)
    page = doctor([], "--root", capture, FORK_ERRNO=str(errno.EAGAIN))
    check(f"a capture needs no process:\n{page.stdout}", page.stdout == plain.stdout)


def dies(maps):
    page = doctor([], DIE_AT="/sys/bus/pci/devices:" + maps)
    says(page.stdout, "Cannot tell which GPUs this machine has: reading it was ended by signal 9 (Killed) "
         "after ", "ended it in the kernel's log (dmesg)")
    page = doctor([], maps.split("/")[2], DIE_AT=maps)
    says(page.stdout, "Cannot look at the process: ", "was ended by signal 9 (Killed) after ")
    check(f"what to do:\n{page.stdout}", "wchan" not in page.stdout)


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
          "no_gpu" not in ids(d))
    check("it says that the machine hangs",
          "machine_hangs" in ids(d) and "machine_unseen" not in ids(d))
    no_process()
    dies(maps)
    print(f"{failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
