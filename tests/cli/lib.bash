# SPDX-License-Identifier: Apache-2.0
# Loaded into every `cmd`.

# Run a command, show it, what it prints on both streams, and its status.
run() {
	local status=0
	echo "\$ $*"
	"$@" 2>&1 || status=$?
	[ $status = 0 ] || echo "-> $status"
}

# Whether an unprivileged user can start h2d here: by root only, and not where the build lies in a
# folder that is closed to others, such as /root. By a shell: what setpriv starts is still found
# with the rights of before.
nobody_runs_h2d() {
	[ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups \
		sh -c '"$1" version -q' sh "$(type -P h2d)" >/dev/null 2>&1
}

# End the case as skipped.
skip() {
	echo "$*" >"$CASE_STATE/skip"
	exit 77
}
