#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the inspector reads in a distribution's modules agrees with what the laboratory measured of
the same kernels. Needs their packages in $H2D_KERNEL_DIR.

usage: packages.py H2D RESULTS
"""

import json
import os
import pathlib
import subprocess
import sys

STATUS = {"stale": 1, "refresh": 0, "no_retry": 0}

h2d, results = sys.argv[1], pathlib.Path(sys.argv[2])
if not os.environ.get("H2D_KERNEL_DIR"):
    print("skipped: H2D_KERNEL_DIR names no folder of packages")
    sys.exit(77)
measured = {
    kernel["release"]: kernel["verdict"]["retry_policy"]
    for kernel in json.loads((results / "lab" / "shipped.json").read_text("utf-8"))["kernels"]
    if kernel["driver"] == "shipped"
}
failures = seen = 0
for release, policy in measured.items():
    done = subprocess.run([h2d, "probe", "module", "--json", "--offline", "--kernel", release],
                          capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if document["schema"] == "h2d.error":
        print(f"FAILED {release}: {document['error']['message']}")
        failures += 1
        continue
    module = document["modules"][0]["module"]
    if module is None:
        print(f"not here: {release}: {document['modules'][0]['module_why']}")
        continue
    seen += 1
    rules = module["permission_rule"]
    # Debian builds amdgpu without shared virtual memory.
    good = (module["retry_policy"] == policy and done.returncode == STATUS[policy]
            and rules == {"svm": "unknown", "userptr": "access"} and module["in_tree"]
            and module["origin"] == "in_tree" and module["signed"] and module["btf"]
            and module["vermagic"].startswith(release + " "))
    failures += not good
    print(f"{'ok    ' if good else 'FAILED'} {release}: {module['retry_policy']}, measured {policy},"
          f" status {done.returncode}, {rules}")
if not seen and not failures:
    print("skipped: none of the measured kernels is in H2D_KERNEL_DIR")
    sys.exit(77)
sys.exit(failures > 0)
