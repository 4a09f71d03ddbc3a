#!/usr/bin/env bash
# Fails when a file system is nearly full. Payload: {"paths": ["/", "/srv"], "warn_percent": 90}
#
# /// fnd
# description = "Warns before a disk is full"
# labels = { team = "ops" }
# size = "XS"
# data = { paths = ["/"], warn_percent = 95 }
# [limits]
# timeout = "20s"
# ///
set -euo pipefail

input=$(cat)
warn=$(jq -r '.warn_percent // 90' <<<"$input")
mapfile -t paths < <(jq -r '.paths // ["/"] | .[]' <<<"$input")

report=$(df --output=target,pcent,avail -B1 -- "${paths[@]}" | tail -n +2 |
    jq -Rn '[inputs | capture("^(?<path>.*?) +(?<used>[0-9]+)% +(?<free>[0-9]+)$")
             | {path, used_percent: (.used | tonumber), free_bytes: (.free | tonumber)}]')

jq -c --argjson warn "$warn" '{disks: ., full: map(select(.used_percent >= $warn) | .path)}' <<<"$report" >"$FND_RESULT"
full=$(jq -r '.full | join(", ")' "$FND_RESULT")
if [[ -n $full ]]; then
    echo "at least $warn % used: $full" >&2
    exit 1
fi
