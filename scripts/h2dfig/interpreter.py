# SPDX-License-Identifier: Apache-2.0
"""Start a script again with the interpreter of build/python where this one lacks what it needs."""
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def need(module, environment="python", make="figures"):
    own = os.environ.get("H2D_PYTHON") or str(ROOT / "build" / environment / "bin" / "python")
    restarted = os.environ.pop("H2D_RESTARTED", None)
    if os.access(own, os.X_OK) and not restarted and sys.prefix != str(Path(own).parent.parent):
        os.environ["H2D_RESTARTED"] = "1"
        os.execv(own, [own, *sys.argv])
    if importlib.util.find_spec(module) is None:
        sys.exit(f"{Path(sys.argv[0]).name}: needs {module}: run scripts/python-env {make} first")
