#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: link.bash H2D MKCKPT FAKES -- the link's ceiling and a campaign on a device, here a fake runtime.
set -euo pipefail
h2d=$(realpath "$1") mkckpt=$(realpath "$2") fakes=$(realpath "$3")
dir=$(mktemp -d ./link-XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export LD_LIBRARY_PATH=$fakes
for device in cuda hip; do
	"$h2d" bench limits --device "$device" --size 4MiB --repeat 2 --json --progress none >limits.json
	for name in device_link_pinned device_link_pageable; do
		grep -q "\"name\":\"$name\",\"what\":\"[^\"]*\",\"bytes_per_s\":[1-9]" limits.json ||
			{ echo "$device: $name was not measured"; cat limits.json; exit 1; }
	done
done
"$mkckpt" --size 2MiB --tensors 4 few.safetensors
cat >m.json <<'END'
{"schema": "h2d.bench-matrix", "schema_version": {"major": 1, "minor": 0}, "name": "link", "block_count": 1,
"checkpoints": [{"name": "few", "file": "few.safetensors"}], "devices": ["cuda", "hip"],
"paths": ["mmap", "pinned"], "cache_states": ["asis"]}
END
"$h2d" bench run m.json --lock "link-$$" --out out --limits limits.json --quiet 2>err || { cat err; exit 1; }
[ "$(grep -c '"event":"cell_finished".*"status":"ok"' out/events.jsonl)" = 4 ] ||
	{ echo "not all cells are ok"; cat out/events.jsonl; exit 1; }
