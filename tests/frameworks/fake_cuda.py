#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fakes of the CUDA libraries that PyTorch's wheel for Linux is linked with, so that it can be
imported on a machine without a GPU and without gigabytes of packages that no test here would
use. Every function says that there is no device. What the wheel itself ships is left as it is.

usage: fake_cuda.py TORCH-LIB-DIR OUT-DIR
Then import torch with OUT-DIR in LD_LIBRARY_PATH.
"""

import pathlib
import re
import subprocess
import sys

# Of the C library, the compiler's runtime and torch itself; all else the wheel expects beside it.
OURS = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux.*|libgomp"
                  r"|libgfortran|libquadmath|libtorch.*|libc10.*|libshm|libcaffe2.*)\.so.*")
PREFIX = re.compile(r"(_*cu|nccl|nv|_*fat)", re.IGNORECASE)
NO_DEVICE = 100  # cudaErrorNoDevice; in other libraries merely an error
GOOD = re.compile(r"__cuda.*|cuda(GetLast|PeekAtLast)Error|.*ProfilerStop")


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needed(file):
    return [m[1] for line in lines("readelf", "-dW", file)
            if (m := re.search(r"NEEDED.*\[(.*)\]", line))]


def symbols(file, kind):
    for line in lines("nm", "-D", f"--{kind}-only", file):
        name, _, version = line.split()[-1].partition("@")
        yield name, version.lstrip("@")


def source(names):
    for name in sorted(names):
        if "ErrorString" in name or "ErrorName" in name:
            yield f'const char *{name}(void) {{ return "fake"; }}'
        else:
            yield f"long {name}(void) {{ return {0 if GOOD.fullmatch(name) else NO_DEVICE}; }}"


def build(soname, by_version, out):
    """One library; `by_version` holds the names under each version of its symbols."""
    names = set().union(*by_version.values()) if by_version else set()
    code, script = out / f"{soname}.c", out / f"{soname}.map"
    code.write_text("\n".join(source(names)) + "\n", "utf-8")
    nodes = [f"{version} {{ global: {' '.join(f'{n};' for n in sorted(names))} }};"
             for version, names in by_version.items() if version]
    script.write_text("\n".join(nodes) + "\n", "utf-8")
    command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-O1", "-nostdlib",
               f"-Wl,-soname,{soname}", "-o", out / soname, code]
    subprocess.run(command + ([f"-Wl,--version-script={script}"] if nodes else []), check=True)
    code.unlink()
    script.unlink()


def main():
    library, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    files = sorted(library.glob("*.so"))
    wanted = {n for f in files for n in needed(f) if not OURS.fullmatch(n)}
    wanted = sorted(n for n in wanted if not (library / n).exists())
    if not wanted:
        return
    defined = {name for f in files for name, _ in symbols(f, "defined")}
    libraries = {soname: {} for soname in wanted}
    for name, version in {s for f in files for s in symbols(f, "undefined")}:
        if name in defined or not PREFIX.match(name):
            continue
        # A version is called like its library; what has none may come from any of them.
        home = version if version in libraries else wanted[0]
        libraries[home].setdefault(version, set()).add(name)
    for soname, by_version in libraries.items():
        build(soname, by_version, out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
