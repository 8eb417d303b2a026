#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of the command line.

A case is a folder with a bash script `cmd`. It runs in an empty scratch folder; what it prints must
be what the files beside it say:

  .stdout.exact   the very bytes                  (none of the three: nothing may be printed)
  .stdout.glob    lines with * and ?; a line "..." stands for any number of lines
  .stdout.ignore  anything
  .stderr.*       the same
  .exit           the exit status (0)

Scripts find h2d, h2d-mkckpt and the helpers of bin/ on PATH and the functions of lib.bash loaded.
`doc SCHEMA [PATH]...` reads a document on stdin, keeps it to be validated at the end of the case
and prints members. `skip REASON` ends a case as skipped (status 77).

usage: run.py [--bless] [--h2d DIR] [--tools DIR] CASE...
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(HERE))
TIMEOUT_S = 240


def glob_regex(pattern):
    """One line of a .glob file; brackets and backslashes mean themselves."""
    out = []
    for char in pattern:
        out.append(".*" if char == "*" else "." if char == "?" else re.escape(char))
    return re.compile("".join(out), re.DOTALL)


def glob_match(patterns, lines):
    """Whether lines match, where "..." swallows any number of them. -1, or the first bad line."""
    reachable = {0}
    for number, line in enumerate(lines):
        following = set()
        for at in close(patterns, reachable):
            if at < len(patterns) and patterns[at] == "...":
                following.add(at)
            elif at < len(patterns) and glob_regex(patterns[at]).fullmatch(line):
                following.add(at + 1)
        if not following:
            return number
        reachable = following
    return -1 if len(patterns) in close(patterns, reachable) else len(lines)


def close(patterns, places):
    done = set()
    for at in places:
        done.add(at)
        while at < len(patterns) and patterns[at] == "...":
            at += 1
            done.add(at)
    return done


def complain(case, name, text):
    print(f"--- {case.name}: {name}\n{text}")


def check_stream(case, name, got, bless):
    """Compare one stream with its golden file, or write it."""
    exact, glob, ignore = (case / f".{name}.{kind}" for kind in ("exact", "glob", "ignore"))
    if ignore.exists():
        return True
    text = got.decode("utf-8", "surrogateescape")
    if glob.exists():
        want = glob.read_text("utf-8", "surrogateescape").splitlines()
        lines = text.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        bad = glob_match(want, lines)
        if bad < 0:
            return True
        where = f"line {bad + 1} does not match" if bad < len(lines) else "lines are missing"
        complain(case, name, f"{where}; got:\n{text}")
        return False
    want = exact.read_bytes() if exact.exists() else b""
    if want == got:
        return True
    if bless:
        if got:
            exact.write_bytes(got)
        else:
            exact.unlink()
        print(f"blessed {exact.relative_to(SOURCE)}")
        return True
    with tempfile.TemporaryDirectory() as tmp:
        a, b = pathlib.Path(tmp, "expected"), pathlib.Path(tmp, "got")
        a.write_bytes(want)
        b.write_bytes(got)
        diff = subprocess.run(["diff", "-u", a, b], capture_output=True, check=False)
        complain(case, name, diff.stdout.decode("utf-8", "replace"))
    return False


def environment(arguments, scratch):
    env = {key: value for key, value in os.environ.items() if not key.startswith("H2D_")}
    env.pop("XDG_CACHE_HOME", None)  # what is kept belongs below HOME
    env.update(
        PATH=os.pathsep.join(
            [str(arguments.h2d), str(arguments.tools), str(HERE / "bin"), env.get("PATH", "")]
        ),
        H2D_SOURCE_DIR=str(SOURCE),
        H2D_BUILD_DIR=str(arguments.build),
        H2D_PYTHON=sys.executable,
        CASE_STATE=str(scratch / "state"),
        BASH_ENV=str(HERE / "lib.bash"),
        HOME=str(scratch / "home"),
        LC_ALL="C",
        TERM="dumb",
    )
    return env


def run_case(case, arguments):
    with tempfile.TemporaryDirectory(prefix="h2d-cli-") as tmp:
        scratch = pathlib.Path(tmp)
        for folder in ("work", "state", "state/docs", "home"):
            (scratch / folder).mkdir()
        try:
            done = subprocess.run(
                ["bash", str(case / "cmd")],
                cwd=scratch / "work",
                env=environment(arguments, scratch),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            complain(case, "timeout", f"after {TIMEOUT_S} s; stdout:\n{late.stdout}")
            return 1
        reason = scratch / "state" / "skip"
        if reason.exists():
            print(f"skipped: {reason.read_text().strip()}")
            return 77
        good = check_stream(case, "stdout", done.stdout, arguments.bless)
        good &= check_stream(case, "stderr", done.stderr, arguments.bless)
        exit_file = case / ".exit"
        want = int(exit_file.read_text()) if exit_file.exists() else 0
        if done.returncode != want:
            complain(case, "exit", f"status {done.returncode}, expected {want}")
            good = False
        documents = sorted((scratch / "state" / "docs").iterdir())
        if documents:
            good &= validate(case, documents)
        return 0 if good else 1


def validate(case, documents):
    """Hold what the case kept against the schemas, where a validator is installed."""
    import schemas

    if not schemas.available():
        print("note: the documents were not validated: no jsonschema for this Python")
        return True
    good = True
    for path in documents:
        wrong = schemas.errors(path.name.split("-", 1)[1], path.read_text("utf-8"))
        if wrong:
            complain(case, path.name, "\n".join(wrong))
            good = False
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bless", action="store_true", help="write what is printed as expected")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build" / "test")
    parser.add_argument("--h2d", type=pathlib.Path, help="folder of h2d")
    parser.add_argument("--tools", type=pathlib.Path, help="folder of h2d-mkckpt")
    parser.add_argument("cases", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    arguments.h2d = (arguments.h2d or arguments.build / "cli").resolve()
    arguments.tools = (arguments.tools or arguments.build / "tests" / "tools").resolve()
    if not shutil.which("h2d", path=str(arguments.h2d)):
        parser.error(f"no h2d in {arguments.h2d}")
    results = []
    for case in arguments.cases:
        case = case.resolve()
        result = run_case(case, arguments)
        results.append(result)
        if len(arguments.cases) > 1:
            print({0: "ok     ", 77: "skipped"}.get(result, "FAILED "), case.name)
    if 1 in results:
        return 1
    return 77 if results == [77] else 0


if __name__ == "__main__":
    sys.exit(main())
