#!/usr/bin/env bash
# Compresses logs above a size and keeps the newest few of each.
#
#     fndctl invoke rotate-logs -d '{"directory": "/srv/app/log", "larger_than": 1048576, "keep": 5}'
#
# The function's user needs to write there: `fndctl show rotate-logs` names it.
#
# /// fnd
# description = "Rotates log files"
# on_load = false
# labels = { team = "ops" }
# [sandbox]
# read_write = ["/srv"]  # where the logs are: the sandbox hides /srv, and shows other places for reading only
# [limits]
# timeout = "10m"
# memory = "128M"
# cpu_weight = 20
# [queue]
# overlap = "skip"
# [pool]
# max = 1
# ///
set -euo pipefail
shopt -s nullglob

input=$(cat)
directory=$(jq -er '.directory' <<<"$input")
larger=$(jq -r '.larger_than // 1048576' <<<"$input")
keep=$(jq -r '.keep // 5' <<<"$input")
cd "$directory"

rotated=0
for log in *.log; do
    (($(stat -c %s -- "$log") > larger)) || continue
    for ((n = keep - 1; n >= 1; n--)); do
        if [[ -e $log.$n.gz ]]; then
            mv -- "$log.$n.gz" "$log.$((n + 1)).gz"
        fi
    done
    # Copied and cut, not moved: a program that has the log open goes on writing to it.
    gzip -c -- "$log" >"$log.1.gz.part"
    mv -- "$log.1.gz.part" "$log.1.gz"
    : >"$log"
    echo "rotated $log" >&2
    rotated=$((rotated + 1))
done
jq -cn --argjson rotated "$rotated" '{rotated: $rotated}'
