#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: slowdown-cpu.bash H2D CELL SLOWED MKCKPT -- as slowdown.bash, by the processor time of the loads.
# The programs take turns within one campaign, which is then cut into one result for each.
set -euo pipefail
h2d=$(realpath "$1") cell=$(realpath "$2") slowed=$(realpath "$3") mkckpt=$(realpath "$4")
dir=$(mktemp -d ./slowdown-cpu-XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$mkckpt" --size 128MiB --tensors 8 few.safetensors
cat >m.json <<END
{"schema": "h2d.bench-matrix", "schema_version": {"major": 1, "minor": 0}, "name": "cpu", "block_count": 21,
"verify": false, "checkpoints": [{"name": "few", "file": "few.safetensors"}], "devices": ["null"],
"cache_states": ["warm"], "external": [{"name": "first", "command": ["$cell"]},
{"name": "second", "command": ["$cell"]}, {"name": "slowed", "command": ["$slowed"]}]}
END
"$h2d" bench run m.json --lock "cpu-$$" --out out --quiet
for name in first second slowed; do
	python3 - "$name" <<'END'
import json, sys
document = json.load(open("out/result.json"))
document["cells"] = [c for c in document["cells"] if c["key"]["loader"] == sys.argv[1]]
document["cells"][0]["key"]["loader"] = "cpu"
json.dump(document, open(sys.argv[1] + ".json", "w"))
END
done
status=0
"$h2d" bench compare first.json slowed.json || status=$?
same=0
# A chance in a thousand at most, so that this test does not cry wolf.
"$h2d" bench compare first.json second.json --alpha 0.001 || same=$?
if [ "$same" != 0 ] && [ "$status" != 1 ]; then
	echo "skipped: this machine is too busy: two runs of the same program compare with status $same"
	exit 77
fi
[ "$same" != 1 ] || { echo "the same program has regressed"; exit 1; }
[ "$status" = 1 ] || { echo "the slow-down was not found: status $status"; exit 1; }
