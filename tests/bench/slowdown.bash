#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: slowdown.bash H2D SLOWED MKCKPT TAKE-TURNS -- two runs of one program are the same within 5 %, and
# one that is 15 % slower in its copy loop has regressed. The runs take turns, each process loads several
# times and its shortest counts, at real-time priority where that is allowed.
set -euo pipefail
h2d=$(realpath "$1") slowed=$(realpath "$2") mkckpt=$(realpath "$3") turns=$(realpath "$4")
dir=$(mktemp -d ./slowdown-XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$mkckpt" --size 256MiB --tensors 8 few.safetensors
priority=normal
chrt -f 1 true 2>/dev/null && priority=fifo
cat >m.json <<END
{"schema": "h2d.bench-matrix", "schema_version": {"major": 1, "minor": 0}, "name": "slowdown", "block_count": 25,
"verify": false, "priority": "$priority", "checkpoints": [{"name": "few", "file": "few.safetensors"}],
"devices": ["null"], "paths": ["pread"], "cache_states": ["warm"], "options": [{"threads": 1, "repeat": 20}]}
END
status=0 same=0
"$turns" m.json -o slower --a "$h2d" --b "$slowed" --lock "slowdown-$$" --ignore build || status=$?
"$turns" m.json -o same --a "$h2d" --lock "slowdown-$$" || same=$?
if [ "$same" != 0 ]; then
	echo "skipped: this machine is too busy: two runs of the same program compare with status $same"
	exit 77
fi
[ "$status" = 1 ] || { echo "the slow-down was not found: status $status"; exit 1; }
