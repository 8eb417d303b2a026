# SPDX-License-Identifier: Apache-2.0
"""Start a script again with the interpreter of one of the environments that scripts/python-env makes."""
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def need(module, environments=("python",), required=True):
    """Go on in the first environment that is there, $H2D_PYTHON before all."""
    candidates = [ROOT / "build" / name / "bin" / "python" for name in environments]
    if os.environ.get("H2D_PYTHON"):
        candidates = [Path(os.environ["H2D_PYTHON"])]
    restarted = os.environ.pop("H2D_RESTARTED", None)
    own = next((c for c in candidates if os.access(c, os.X_OK)), None)
    if own and not restarted and sys.prefix != str(own.parent.parent):
        os.environ["H2D_RESTARTED"] = "1"
        os.execv(own, [str(own), *sys.argv])
    if required and importlib.util.find_spec(module) is None:
        sys.exit(f"{Path(sys.argv[0]).name}: needs {module}: run scripts/python-env first")
