#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h2d doctor inside guests: what it measures there through the kernel's own amdgpu.

usage: doctor.py H2D

A kernel without its package is skipped (status 77 when none is left).
"""

import json
import subprocess
import sys

H2D = sys.argv[1]
KERNELS = {
    "6.12.115+deb12-amd64": (1, "Your kernel has the one-second copy bug. Upgrade to "
                                "linux-image-6.12.117+deb12-amd64, or run: h2d run -- COMMAND"),
    "6.12.117+deb12-amd64": (0, "Your kernel does not have the one-second copy bug."),
}

words = [H2D, "probe", "lab", "--json", "--driver", "shipped", "--fs", "ext4", "--state",
         "ro-present", "--permission", "access", "--size", "4MiB", "--guest-program", H2D,
         "--guest-command", "/bin/h2d doctor"]
for release in KERNELS:
    words += ["--kernel", release]
done = subprocess.run(words, capture_output=True, text=True, check=False)
document = json.loads(done.stdout)
failures = seen = 0
for kernel in document.get("kernels", []):
    if not kernel.get("commands"):
        print(f"{kernel['release']}: not verified: {kernel['verdict'].get('reasons')}")
        continue
    seen += 1
    command, (status, line) = kernel["commands"][0], KERNELS[kernel["release"]]
    first = command["stdout"].split("\n", 1)[0]
    good = (first == line and command["status"] == status
            and "measured on hmm:shipped" in command["stdout"]
            and command["elapsed_ns"] < 10_000_000_000)
    print(f"{kernel['release']}: status {command['status']}\n{command['stdout']}{command['stderr']}")
    if not good:
        failures += 1
        print(f"FAILED: status {status} and the first line are to be\n{line}\n")
print(f"{seen} guests, {failures} failures")
sys.exit(1 if failures else 0 if seen else 77)
