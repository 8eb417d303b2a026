#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: slowdown.bash H2D SLOWED MKCKPT -- two runs of one program are the same within 5 %, and one
# that is 15 % slower in its copy loop has regressed.
set -euo pipefail
h2d=$(realpath "$1") slowed=$(realpath "$2") mkckpt=$(realpath "$3")
dir=$(mktemp -d ./slowdown-XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$mkckpt" --size 512MiB --tensors 8 few.safetensors
cat >m.json <<'END'
{"schema": "h2d.bench-matrix", "schema_version": {"major": 1, "minor": 0}, "name": "slowdown", "block_count": 25,
"verify": false, "checkpoints": [{"name": "few", "file": "few.safetensors"}], "devices": ["null"],
"paths": ["pread"], "cache_states": ["warm"], "options": [{"threads": 1}]}
END
for run in first second; do
	"$h2d" bench run m.json --lock "slowdown-$$" --out "$run" --quiet
done
"$slowed" bench run m.json --lock "slowdown-$$" --out slowed --quiet
status=0
"$h2d" bench compare first/result.json slowed/result.json --ignore build || status=$?
same=0
"$h2d" bench compare first/result.json second/result.json || same=$?
if [ "$same" != 0 ]; then
	echo "skipped: this machine is too busy: two runs of the same program compare with status $same"
	exit 77
fi
[ "$status" = 1 ] || { echo "the slow-down was not found: status $status"; exit 1; }
