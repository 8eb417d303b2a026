#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs the module's tests under a kernel with KASAN, PROVE_LOCKING and KMEMLEAK.
#
# usage: debug-kernel.sh --tests DIR [--source DIR|linux-source-*.tar.xz] [--out DIR] [--jobs N]
#                        [--seconds N] [--build-only]
#
# Builds the kernel from a source tree (default: $H2D_KERNEL_SOURCE, else what Debian's package
# linux-source-6.1 or -6.12 has put under /usr/src) with debug-kernel.config, then the module
# against it, then boots both in QEMU (emulation; slow) with an initramfs of busybox and the
# static programs hmm-selftest and hmm-fuzz of --tests, and looks through the guest's log and
# kmemleak's list. --out keeps the build for the next run.
# Exit status: 0 clean, 1 something found, 5 a step failed, 77 a tool or the source is missing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source='' tests='' out='' jobs=2 seconds=300 build_only=''
fail() { echo "debug-kernel: $*" >&2; exit 5; }
skip() { echo "debug-kernel: $*" >&2; exit 77; }

while [ $# -gt 0 ]; do
	case $1 in
	--source) source=$2; shift 2 ;;
	--tests) tests=$2; shift 2 ;;
	--out) out=$2; shift 2 ;;
	--jobs) jobs=$2; shift 2 ;;
	--seconds) seconds=$2; shift 2 ;;
	--build-only) build_only=1; shift ;;
	*) sed -n '3,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
done

for tool in make gcc flex bison bc cpio gzip qemu-system-x86_64 mkfs.ext4 busybox; do
	command -v "$tool" >/dev/null || skip "$tool is missing"
done
source=${source:-${H2D_KERNEL_SOURCE:-}}
for default in /usr/src/linux-source-6.1.tar.xz /usr/src/linux-source-6.12.tar.xz; do
	[ -n "$source" ] || [ ! -e "$default" ] || source=$default
done
[ -e "$source" ] || skip "no kernel source: give --source, or install linux-source-6.1"
[ -n "$build_only" ] || [ -x "$tests/hmm-fuzz" ] || skip "no hmm-fuzz in --tests"

work=$(mktemp -d "${TMPDIR:-/tmp}/h2d-debug-kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
out=${out:-$work/out}
mkdir -p "$out"

if [ ! -d "$source" ]; then
	mkdir -p "$work/source"
	tar -C "$work/source" --strip-components=1 -xf "$source" || fail "unpacking $source"
	source=$work/source
fi

# One wanted line may be lost for another: every one is looked for in the result.
configure() {
	cp "$here/debug-kernel.config" "$work/all.config"
	KCONFIG_ALLCONFIG=$work/all.config make -s -C "$source" O="$out" allnoconfig >/dev/null
	grep '^CONFIG_' "$here/debug-kernel.config" | while read -r line; do
		grep -qx "$line" "$out/.config" || { echo "lost: $line"; touch "$work/lost"; }
	done
	[ ! -e "$work/lost" ] || fail "the configuration was not taken as it is"
}

configure
make -s -C "$source" O="$out" -j"$jobs" bzImage modules >"$out/build.log" 2>&1 ||
	{ tail -20 "$out/build.log" >&2; fail "building the kernel"; }
cp -r "$here/.." "$work/module"
make -s -C "$work/module" KDIR="$out" >"$work/module.log" 2>&1 ||
	{ tail -20 "$work/module.log" >&2; fail "building the module"; }
[ -z "$build_only" ] || exit 0

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,ext4,tmpfs,debug}
cp "$(command -v busybox)" "$tests/hmm-selftest" "$tests/hmm-fuzz" "$root/bin/"
cp "$work/module/h2d_hmm.ko" "$root/"
cat >"$root/init" <<-EOI
	#!/bin/busybox sh
	/bin/busybox --install -s /bin
	export PATH=/bin
	mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
	mount -t debugfs debug /debug; mount -t tmpfs tmpfs /tmpfs; mount -t ext4 /dev/vda /ext4
	echo 8 >/proc/sys/vm/nr_hugepages
	insmod /h2d_hmm.ko || echo FOUND insmod failed
	hmm-selftest -t 40 -m 8 /ext4 /tmpfs || echo FOUND hmm-selftest
	hmm-fuzz -p -t $seconds -j 3 /ext4 || echo FOUND hmm-fuzz
	sleep 6 # kmemleak lets young objects pass
	echo scan >/debug/kmemleak; sleep 6; echo scan >/debug/kmemleak
	rmmod h2d_hmm || echo FOUND rmmod failed
	echo scan >/debug/kmemleak; cat /debug/kmemleak
	cat /proc/lockdep_stats | grep -i "debug_locks"
	dmesg | grep -cE "KASAN|lockdep|kmemleak" | sed 's/^/CONTROL lines of the tools: /'
	echo GUEST DONE
	poweroff -f
EOI
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"
truncate -s 512M "$work/disk"
mkfs.ext4 -q -F "$work/disk"

# acpi=noirq: under these checks an emulated guest interprets ACPI's interrupt routing for longer than
# ACPI lets it, and its disk then stays silent. Without it there is one processor (and PREEMPT).
timeout $((seconds * 10 + 2400)) qemu-system-x86_64 -machine pc -accel tcg -cpu max -m 3072 \
	-nodefaults -nographic -serial stdio -monitor none -no-reboot \
	-kernel "$out/arch/x86/boot/bzImage" -initrd "$work/initrd" \
	-drive file="$work/disk",format=raw,if=virtio \
	-append "console=ttyS0 panic=-1 oops=panic kmemleak=on acpi=noirq" \
	</dev/null 2>&1 | sed -u 's/\r//g' >"$out/console.log" || fail "the guest did not end by itself"

grep -E '^(ok|not ok|#|FOUND|CONTROL)' "$out/console.log" || true
grep -q '^GUEST DONE' "$out/console.log" || fail "the guest did not get to its end"
if grep -nE 'FOUND|BUG|WARNING|Oops|KASAN:|unreferenced object|possible (circular|recursive)|INFO: task|soft lockup|rcu.*stall' \
	"$out/console.log"; then
	echo "debug-kernel: found, see above and $out/console.log" >&2
	exit 1
fi
grep -q 'debug_locks: *1' "$out/console.log" || fail "lockdep was not on to the end"
echo "debug-kernel: clean"
