# SPDX-License-Identifier: Apache-2.0
# Loaded into every `cmd`.

# Run a command, show it, what it prints on both streams, and its status.
run() {
	local status=0
	echo "\$ $*"
	"$@" 2>&1 || status=$?
	[ $status = 0 ] || echo "-> $status"
}

# End the case as skipped.
skip() {
	echo "$*" >"$CASE_STATE/skip"
	exit 77
}
