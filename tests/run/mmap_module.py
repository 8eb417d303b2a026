#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's own mmap module under the preloaded library. Usage: mmap_module.py [LIBRARY]"""

import faulthandler
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile

SIZE = 8 << 20


def permissions(path):
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return [line.split()[1] for line in maps if line.rstrip().endswith(path)]


def case(path):
    faulthandler.enable()
    with open(path, "rb+") as file:
        original = file.read()
        copy = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        assert permissions(path) == ["r--p"], permissions(path)
        faulthandler.disable()
        faulthandler.enable(all_threads=True)  # behind ours as well as before
        assert copy[:] == original
        copy[5 << 20] = original[5 << 20] ^ 1
        assert copy[5 << 20] == original[5 << 20] ^ 1
        assert sorted(set(permissions(path))) == ["r--p", "rw-p"]
        file.seek(0)
        assert file.readinto(memoryview(copy)[SIZE // 4 : SIZE // 2]) == SIZE // 4
        assert copy[SIZE // 4 : SIZE // 2] == original[: SIZE // 4]
        shared = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE)
        assert "rw-s" in permissions(path)
        shared[SIZE - 1] = 7
        shared.flush()
        child = os.fork()
        if not child:
            copy[7 << 20] = 9
            os._exit(0 if copy[7 << 20] == 9 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert copy[7 << 20] == original[7 << 20]
        status = subprocess.run([sys.executable, "-c", "print(6 * 7)"], stdout=subprocess.PIPE)
        assert status.stdout == b"42\n"
    # A real fault: Python's fault handler speaks, and the process ends as it would.
    import ctypes

    ctypes.string_at(0)


def check_reports(directory, path):
    """Of the one that crashed and of its forked child, and of no other program."""
    lines = {}
    for name in os.listdir(directory):
        if name.startswith("report-"):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                lines[name] = file.read()
    assert len(lines) == 2, lines
    for name, line in lines.items():
        pid = name.removeprefix("report-")
        assert line.startswith(f"pid {pid} ") and line.count("\n") == 1, line
        assert path + ": kept_mapping_count 1 " in line, line
        assert "not all counted" not in line, line
    # The parent wrote a byte and had 2 MiB read into place; the child wrote one page of its own.
    pages = sorted(int(line.split(" written_page_count ")[1]) for line in lines.values())
    assert pages == [1, SIZE // 4 // mmap.PAGESIZE + 1], lines


def main():
    if len(sys.argv) == 3:
        return case(sys.argv[2])
    header = json.dumps({"a": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}})
    # Here, and not in /tmp, which may be a tmpfs.
    with tempfile.TemporaryDirectory(dir=".") as directory:
        path = os.path.join(os.path.realpath(directory), "model.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode() + os.urandom(SIZE))
        report = os.path.join(directory, "report-%p")
        environment = dict(os.environ, LD_PRELOAD=sys.argv[1], H2D_RUN_REPORT=report)
        environment["H2D_RUN_VERBOSE"] = "1"
        environment.pop("H2D_RUN_STATE", None)
        done = subprocess.run(
            [sys.executable, __file__, "case", path],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        check_reports(directory, path)
    sys.stderr.write(done.stderr)
    assert done.stderr.count("h2d-readonly: kept read-only: " + path) == 1
    assert done.returncode == -signal.SIGSEGV, done.returncode
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "string_at" in done.stderr and "AssertionError" not in done.stderr


if __name__ == "__main__":
    main()
