# SPDX-License-Identifier: Apache-2.0
"""The built programs that a script needs, or one line that says how to build them."""
import os
import sys
from pathlib import Path

CANNOT_RUN = 77


def need(build, *names):
    """Go on if all are there; else end with the status of what cannot run here."""
    missing = [name for name in names if not os.access(Path(build) / name, os.X_OK)]
    if missing:
        configured = (Path(build) / "CMakeCache.txt").exists()
        print(f"{Path(sys.argv[0]).name}: no {', no '.join(missing)} in {build}: build all targets: "
              f"{'' if configured else f'cmake -S . -B {build} && '}cmake --build {build}", file=sys.stderr)
        sys.exit(CANNOT_RUN)
