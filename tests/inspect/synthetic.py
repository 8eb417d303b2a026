#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules made for the purpose, of every policy, built by gcc and clang in several ways: the
inspector must tell their policy and rules or, where so marked, say that it does not know. A wrong
verdict is a failure everywhere.

usage: synthetic.py [--all] [--verbose] H2D
--all also builds with -O1 and -Os. Kernels are built with -O2; what clang hides at -O1 may be
unknown and is listed.
"""

import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = [
    "-mcmodel=kernel", "-fno-pic", "-mno-red-zone", "-fno-strict-aliasing", "-fno-jump-tables",
    "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-mno-sse", "-mno-mmx",
]
GCC = ["-pg", "-mfentry", "-mindirect-branch=thunk-extern", "-mfunction-return=thunk-extern",
       "-fcf-protection=branch"]
CLANG = ["-pg", "-mfentry", "-mretpoline-external-thunk", "-fcf-protection=branch"]
POLICIES = {"refresh": "REFRESH", "stale": "STALE", "no_retry": "NO_RETRY"}
FORMS = ["PLAIN", "HELPER", "BOTH", "CHUNKS", "LOCKED", "OUTLINED", "GOTO_COLD", "STEPS"]
NONSENSE = ["NO_CLOCK", "ALL_ERRORS", "EVERY_SECOND", "THROWN_AWAY", "POINTER"]


def compilers():
    found = []
    if shutil.which("gcc"):
        found.append(("gcc", KERNEL + GCC))
    if shutil.which("clang"):
        found.append(("clang", KERNEL + CLANG))
    return found


def cases():
    """(name, definitions, flags, expected policy, expected rules); None: it must be unknown, and
    a set: one of these."""
    base = {"SVM_RULE": "BY_VMA", "USERPTR_RULE": "BY_ACCESS", "USE_FIND_VMA": 0, "FORM": "PLAIN"}
    rules = ("vma", "access")
    for policy, form in itertools.product(POLICIES, FORMS):
        yield (f"{policy} {form}", {**base, "POLICY": POLICIES[policy], "FORM": form}, [],
               policy, rules)
    for policy in POLICIES:
        d = {**base, "POLICY": POLICIES[policy], "FORM": "CHUNKS"}
        yield f"{policy} find_vma", {**d, "USE_FIND_VMA": 1}, [], policy, rules
        yield f"{policy} renamed", {**d, "NAME": "something_else"}, [], policy, rules
        yield (f"{policy} static, inlined where it is called",
               {**d, "STORAGE": "static always_inline"}, [], {policy, "unknown"}, None)
        yield (f"{policy} split by the compiler", d, ["-DSTORAGE=static noinline",
               "-fipa-sra"], policy, rules)
        yield (f"{policy} functions in sections", d, ["-ffunction-sections"], policy, rules)
        yield (f"{policy} jump tables", d, ["-fjump-tables"], policy, rules)
        yield (f"{policy} frame pointers", d, ["-fno-omit-frame-pointer"], policy, rules)
        yield (f"{policy} the error as it is", {**d, "RAW_ERROR": 1}, [], policy, rules)
        yield (f"{policy} twice the same",
               {**d, "SECOND": POLICIES[policy] if policy != "no_retry" else "STALE"}, [],
               policy if policy != "no_retry" else None, rules)
        yield (f"{policy} beside another",
               {**d, "SECOND": "REFRESH" if policy == "stale" else "STALE"}, [], None, rules)
    for policy in NONSENSE:
        # Small enough to be inlined, where the callers' rules are out of reach.
        yield f"{policy}", {**base, "POLICY": policy}, [], None, None
    yield "OTHER_ERROR", {**base, "POLICY": "OTHER_ERROR"}, [], {"no_retry", "unknown"}, None
    d = {**base, "POLICY": "NO_RETRY", "FORM": "CHUNKS"}
    yield "rule in a helper", {**d, "RULE_IN_HELPER": 1}, [], "no_retry", rules
    yield ("rule in a helper, by another bit", {**d, "RULE_IN_HELPER": 1,
           "SVM_RULE": "BY_OTHER_BIT"}, [], "no_retry", ("unknown", "access"))
    yield "svm by access", {**d, "SVM_RULE": "BY_ACCESS"}, [], "no_retry", ("access", "access")
    for rule in ("ALWAYS_WRITE", "BY_BOTH", "BY_OTHER_BIT"):
        yield f"svm {rule}", {**d, "SVM_RULE": rule}, [], "no_retry", ("unknown", "access")
    yield "userptr by vma", {**d, "USERPTR_RULE": "BY_VMA"}, [], "no_retry", ("vma", "vma")
    yield ("userptr ALWAYS_WRITE", {**d, "USERPTR_RULE": "ALWAYS_WRITE"}, [], "no_retry",
           ("vma", "unknown"))
    yield "no callers", {**d, "NO_CALLERS": 1}, [], "no_retry", ("unknown", "unknown")


def build(compiler, flags, level, definitions, more, out):
    command = [compiler, "-c", "-std=gnu11", "-w", level, *flags, *more, "-o", str(out)]
    command += [f"-D{name}={value}" for name, value in definitions.items()]
    done = subprocess.run([*command, str(HERE / "driver.c")], capture_output=True, text=True,
                          check=False)
    if done.returncode and "-fipa-sra" in more and "fipa-sra" in done.stderr:
        return build(compiler, flags, level, definitions, [m for m in more if m != "-fipa-sra"],
                     out)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stderr}")
    return True


def main():
    verbose = "--verbose" in sys.argv
    h2d = [word for word in sys.argv[1:] if not word.startswith("--")][0]
    found = compilers()
    if not found:
        print("skipped: neither gcc nor clang is here")
        return 77
    levels = ("-O1", "-O2", "-O3", "-Os") if "--all" in sys.argv else ("-O2", "-O3")
    asked, files = [], []
    with tempfile.TemporaryDirectory() as folder:
        for (compiler, flags), level in itertools.product(found, levels):
            for name, definitions, more, policy, rules in cases():
                out = pathlib.Path(folder) / f"{len(files)}.ko"
                build(compiler, flags, level, definitions, more, out)
                files.append(str(out))
                unusual = (compiler, level) == ("clang", "-O1")
                asked.append((f"{compiler} {level} {name}", policy, rules, unusual))
        done = subprocess.run([h2d, "probe", "module", "--json", *files], capture_output=True,
                              text=True, check=False)
        if not done.stdout or done.returncode not in (1, 77):
            print(f"FAILED: status {done.returncode}: {done.stderr[-500:]}")
            return 1
        modules = json.loads(done.stdout)["modules"]
        return judge(asked, modules, files, verbose)


def judge(asked, modules, files, verbose):
    wrong, unknown = 0, []

    def missed(name, got, want, unusual):
        nonlocal wrong
        if got == "unknown" and unusual:
            print(f"unknown, allowed at this level: {name}")
            unknown.append(name)
            return
        print(f"{'WRONG' if got != 'unknown' else 'UNKNOWN'}: {name}: {got}, expected {want}")
        wrong += 1

    for (name, policy, rules, unusual), entry, _ in zip(asked, modules, files, strict=True):
        module = entry["module"]
        got = module["retry_policy"]
        allowed = policy if isinstance(policy, set) else {policy or "unknown"}
        reasons = "; ".join(f"{u['of']}: {u['reason']}" for u in module["unknown"])
        if got not in allowed:
            missed(f"{name}: {reasons}", got, sorted(allowed), unusual)
        elif got == "unknown":
            unknown.append(f"{name}: {reasons}")
        pair = (module["permission_rule"]["svm"], module["permission_rule"]["userptr"])
        for caller, is_, want in zip(("svm", "userptr"), pair, rules or pair):
            if is_ != want:
                missed(f"{name}, {caller}: {reasons}", is_, want, unusual)
    if verbose:
        print(*unknown, sep="\n")
    print(f"{len(asked)} modules, {wrong} wrong, {len(unknown)} unknown as they may be")
    return 1 if wrong else 0


sys.exit(main())
