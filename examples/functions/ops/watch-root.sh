#!/usr/bin/env bash
# Kept running: says when the root file system has crossed a limit, once in each direction.
#
# /// fnd
# description = "Tells when the disk gets full, and when it is not any more"
# labels = { team = "ops" }
# env = { LIMIT_PERCENT = "90", LOOK_EVERY = "60" }
# [service]
# [retry]
# interval = "1s"
# max_interval = "1m"
# ///
set -euo pipefail

state=
while true; do
    used=$(df --output=pcent / | tail -n 1 | tr -dc 0-9)
    if ((used >= LIMIT_PERCENT)); then now="full"; else now="fine"; fi
    if [[ $now != "$state" ]]; then
        state=$now
        echo "the disk is $state: $used % used"
    fi
    sleep "$LOOK_EVERY"
done
