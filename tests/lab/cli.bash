#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command `h2d probe lab` from outside: exit statuses, messages, and that nothing is left
# behind. usage: cli.bash H2D ASSETS quick|guest|image
set -u
h2d=$1 assets=$2 part=$3
kernel=${H2D_TEST_KERNEL:-6.12.115+deb12-amd64}
export H2D_LAB_DIR=$assets LC_ALL=C
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tmp" "$scratch/cache" "$scratch/kernels" "$scratch/bin"
export TMPDIR=$scratch/tmp
failures=0

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

# check NAME EXPECTED-STATUS TEXT-ON-STDERR COMMAND…
check() {
	local name=$1 want=$2 text=$3 got
	shift 3
	"$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	[ "$got" = "$want" ] || fail "$name: status $got, expected $want: $(head -3 "$scratch/err")"
	[ -z "$text" ] || grep -qF -- "$text" "$scratch/err" || fail "$name: no '$text' in: $(head -3 "$scratch/err")"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "$name: left in TMPDIR: $(ls -A "$TMPDIR")"
	echo "done $name"
}

# The document on stdout, against its schema.
valid() {
	local tools
	tools=$(dirname "$0")/../cli
	if ! python3 -c 'import jsonschema' 2>/dev/null; then
		echo "left out: $1 against its schema (no jsonschema)"
		return
	fi
	python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import schemas
found = schemas.errors("h2d.lab", open(sys.argv[2]).read())
print(*found, sep="\n"); sys.exit(bool(found))' "$tools" "$scratch/out" || fail "$1: document"
}

skip() {
	echo "skipped: $*"
	exit 77
}

# A kernel package of Debian's layout, enough to be recognised and unpacked.
make_package() { # file
	local d=$scratch/package
	rm -rf "$d" && mkdir -p "$d/data/boot" "$d/data/lib/modules/9.1-amd64/kernel" "$d/control"
	head -c 1500000 /dev/urandom >"$d/data/boot/vmlinuz-9.1-amd64"
	: >"$d/data/lib/modules/9.1-amd64/kernel/x.ko"
	printf 'Package: linux-image-9.1-amd64\nVersion: 9.1-1\nArchitecture: amd64\n' \
		>"$d/control/control"
	tar -C "$d/control" -czf "$d/control.tar.gz" ./control
	tar -C "$d/data" -czf "$d/data.tar.gz" ./boot ./lib
	echo 2.0 >"$d/debian-binary"
	(cd "$d" && rm -f "$1" && ar rc "$1" debian-binary control.tar.gz data.tar.gz)
}

quick() {
	unset H2D_KERNEL_DIR
	export XDG_CACHE_HOME=$scratch/cache
	lab() { "$h2d" probe lab --kernel-dir "$scratch/kernels" --offline "$@"; }

	check "no kernel named" 2 "no kernel was named" lab
	check "unknown filesystem" 2 "there is no 'zfs'" lab --kernel 9 --fs ext4,zfs
	check "image alone" 2 "go together" lab --image /dev/null
	check "odd size" 2 "multiple of 4096" lab --kernel 9 --size 5000
	check "kernel that cannot be had" 77 "not_verified" lab --kernel 9.9.9-amd64
	check "the same as a document" 77 "not_verified" lab --kernel 9.9.9-amd64 --json
	valid "the same as a document"
	check "folder missing" 3 "$scratch/none" "$h2d" probe lab --offline --kernel 9 \
		--kernel-dir "$scratch/none"
	echo hello >"$scratch/no.deb"
	check "no package" 3 "no.deb" lab --kernel-package "$scratch/no.deb"
	check "file missing" 3 "gone.deb" lab --kernel-package "$scratch/gone.deb"
	make_package "$scratch/kernels/a.deb"
	head -c 200000 "$scratch/kernels/a.deb" >"$scratch/cut.deb"
	ln -s "$(type -P true)" "$scratch/bin/qemu-system-x86_64"
	for tool in depmod modprobe make; do
		ln -s "$(PATH=$PATH:/usr/sbin:/sbin type -P $tool)" "$scratch/bin/$tool"
	done
	check "cut package" 3 "cut.deb" env PATH="$scratch/bin" "$h2d" probe lab --offline \
		--kernel-package "$scratch/cut.deb"
	mkdir "$scratch/empty"
	check "no QEMU" 77 "qemu-system-x86_64 is not installed" env PATH="$scratch/empty" \
		"$h2d" probe lab --kernel-dir "$scratch/kernels" --offline --kernel 9.1-amd64
	# Its modules are no modules: a damaged package, found before anything is booted.
	check "hollow package" 3 "9.1-amd64" env PATH="$scratch/bin" "$h2d" probe lab \
		--kernel-dir "$scratch/kernels" --offline --kernel 9.1-amd64
	check "error document" 77 "" env PATH="$scratch/empty" "$h2d" probe lab --json \
		--kernel-dir "$scratch/kernels" --offline --kernel 9.1-amd64
	grep -q '"status": *77' "$scratch/out" || fail "no error document: $(cat "$scratch/out")"
	no_space
	left_by_the_killed
}

no_space() {
	mkdir "$scratch/small"
	check_space() {
		mount -t tmpfs -o size=512k tmpfs "$scratch/small" || return 78
		TMPDIR=$scratch/small PATH=$scratch/bin "$h2d" probe lab \
			--kernel-dir "$scratch/kernels" --offline --kernel 9.1-amd64
	}
	export -f check_space
	export scratch h2d
	if unshare -rm true 2>/dev/null; then
		check "no space" 5 "No space left" unshare -rm bash -c check_space
	else
		echo "left out: no space (no user namespaces here)"
	fi
}

# A run that was killed has left its directory; the next one removes it. One in use stays.
left_by_the_killed() {
	mkdir "$TMPDIR/h2d-lab-dead00" "$TMPDIR/h2d-lab-live00" "$TMPDIR/h2d-lab-other0"
	: >"$TMPDIR/h2d-lab-dead00/lock"
	: >"$TMPDIR/h2d-lab-live00/lock"
	(
		flock 9
		"$h2d" probe lab --kernel-dir "$scratch/kernels" --offline --kernel 9.9.9 2>/dev/null
	) 9>"$TMPDIR/h2d-lab-live00/lock"
	[ ! -e "$TMPDIR/h2d-lab-dead00" ] || fail "a dead run's directory is still there"
	[ -e "$TMPDIR/h2d-lab-live00" ] || fail "a living run's directory was removed"
	[ -e "$TMPDIR/h2d-lab-other0" ] || fail "a directory without a lock was removed"
	rm -rf "$TMPDIR"/h2d-lab-*
	echo "done left by the killed"
}

ours() { # guests with our temporary directory on their command line
	grep -lsa "[q]emu-system.*$TMPDIR/h2d-lab-" /proc/[0-9]*/cmdline | wc -l
}

small=(--driver emulated --policy stale --fs tmpfs --permission vma --state rw-present
	--size 2MiB --timeout-ms 20)

guest() {
	"$h2d" probe lab --kernel "$kernel" "${small[@]}" --json >"$scratch/out" 2>"$scratch/err"
	case $? in
	77) skip "$(tail -1 "$scratch/err")" ;;
	1) ;;
	*) fail "one small cell: $(cat "$scratch/err")" ;;
	esac
	valid "one small cell"
	for signal in INT TERM; do
		interrupted $signal
	done
	killed
	two_at_once
}

# Interrupted while the guest runs.
interrupted() {
	local pid status i
	"$h2d" probe lab --kernel "$kernel" "${small[@]}" --timeout-ms 10000 >"$scratch/out" \
		2>"$scratch/err" &
	pid=$!
	for i in $(seq 600); do
		[ "$(ours)" -gt 0 ] && break
		sleep 0.1
	done
	[ "$(ours)" -gt 0 ] || fail "$1: no guest was started"
	kill -"$1" $pid
	wait $pid
	status=$?
	[ $status = 6 ] || fail "$1: status $status: $(cat "$scratch/err")"
	[ "$(ours)" = 0 ] || fail "$1: a guest is still running"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "$1: left: $(ls -A "$TMPDIR")"
	echo "done interrupted by $1"
}

# Killed without a chance: the guest goes too, and the next run removes the directory.
killed() {
	local pid i
	"$h2d" probe lab --kernel "$kernel" "${small[@]}" --timeout-ms 10000 >/dev/null 2>&1 &
	pid=$!
	for i in $(seq 600); do
		[ "$(ours)" -gt 0 ] && break
		sleep 0.1
	done
	kill -KILL $pid
	wait $pid 2>/dev/null
	for i in $(seq 100); do
		[ "$(ours)" = 0 ] && break
		sleep 0.1
	done
	[ "$(ours)" = 0 ] || fail "killed: a guest is still running"
	"$h2d" probe lab --kernel 9.9.9 --offline >/dev/null 2>&1
	[ -z "$(ls -A "$TMPDIR")" ] || fail "killed: left: $(ls -A "$TMPDIR")"
	echo "done killed"
}

two_at_once() {
	local i pids=() status
	for i in 1 2; do
		"$h2d" probe lab --kernel "$kernel" "${small[@]}" >"$scratch/out$i" \
			2>"$scratch/err$i" &
		pids+=($!)
	done
	for i in 1 2; do
		wait "${pids[$((i - 1))]}"
		status=$?
		[ $status = 1 ] || fail "two at once: status $status: $(cat "$scratch/err$i")"
		grep -q " [12] windows, [12] restarts" "$scratch/out$i" ||
			fail "two at once: $(cat "$scratch/out$i")"
	done
	[ -z "$(ls -A "$TMPDIR")" ] || fail "two at once: left: $(ls -A "$TMPDIR")"
	echo "done two at once"
}

# A kernel that is no package: its image, modules and headers lie in folders, as a developer's do.
image() {
	local root=$scratch/built abi=${kernel%-*} package packages=()
	local src=$root/usr/src given
	type -P dpkg-deb >/dev/null || skip "no dpkg-deb to unpack a kernel with"
	for package in "linux-image-$kernel" "linux-headers-$kernel" "linux-headers-$abi-common" \
		"linux-kbuild-$abi"; do
		package=$(find "${H2D_KERNEL_DIR:-/nonexistent}" \
			"${XDG_CACHE_HOME:-$HOME/.cache}/h2d/kernels" -name "${package}_*.deb" \
			2>/dev/null | head -1)
		[ "$package" ] && packages+=("$package")
	done
	[ ${#packages[@]} = 4 ] || skip "the packages of $kernel are not here"
	for package in "${packages[@]}"; do
		dpkg-deb -x "$package" "$root" || fail "unpacking $package"
	done
	# Debian's header Makefile names an absolute path, since it is meant to be installed.
	sed -i "s|/usr/src/|$src/|" "$src/linux-headers-$kernel/Makefile"
	given=(--image "$root/boot/vmlinuz-$kernel" --headers "$src/linux-headers-$kernel")

	mkdir -p "$scratch/hollow/9.1/kernel"
	: >"$scratch/hollow/9.1/kernel/x.ko"
	check "no such image" 3 "$scratch/none: no such file" "$h2d" probe lab "${given[@]:2}" \
		--image "$scratch/none" --modules "$root"
	check "no such modules" 3 "$scratch/none: no such folder" "$h2d" probe lab "${given[@]}" \
		--modules "$scratch/none"
	check "no such headers" 3 "$scratch/none: no such folder" "$h2d" probe lab \
		"${given[@]:0:2}" --headers "$scratch/none" --modules "$root"
	check "hollow modules" 3 "kernel 9.1 has no module" "$h2d" probe lab "${given[@]}" \
		--modules "$scratch/hollow/9.1"
	# By the root that holds lib/modules, then by the folder itself.
	check "image by its root" 1 "" "$h2d" probe lab "${given[@]}" --modules "$root" \
		"${small[@]}" --json
	valid "image by its root"
	grep -q "\"release\": *\"$kernel\"" "$scratch/out" || fail "image by its root: no $kernel"
	check "image by its modules" 1 "" "$h2d" probe lab "${given[@]}" \
		--modules "$root/lib/modules/$kernel" "${small[@]}"
	grep -q " [12] windows, [12] restarts" "$scratch/out" ||
		fail "image by its modules: $(cat "$scratch/out")"
	[ -z "$(find "$root" -newer "$scratch/hollow" -name 'modules.dep*')" ] ||
		fail "depmod wrote into the kernel's own folder"
}

"$part"
[ $failures = 0 ]
