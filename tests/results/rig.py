# SPDX-License-Identifier: Apache-2.0
"""What the tests of the scripts share."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"


class Checks:
    def __init__(self):
        self.failures = self.count = 0

    def __call__(self, what, good, detail=""):
        self.count += 1
        if not good:
            self.failures += 1
            print(f"FAILED: {what}{': ' if detail else ''}{str(detail)[:2000]}")

    def end(self):
        print(f"{self.count} checks, {self.failures} failures")
        sys.exit(self.failures > 0)


def interpreter():
    """That of scripts/python-env, where figures can be drawn; otherwise the test is skipped."""
    python = os.environ.get("H2D_PYTHON") or str(ROOT / "build" / "python" / "bin" / "python")
    if not os.access(python, os.X_OK):
        print("skipped: no environment to draw with; scripts/python-env makes it")
        sys.exit(77)
    return python


def run(*words, python=None):
    command = [python or sys.executable, *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "PYTHONHASHSEED": "random"})
