#!/usr/bin/env bash
# Says how busy the machine is, or whether it is too busy. GET: no payload. POST: {"limit": 4.0}. Needs jq.
#
# /// fnd
# description = "Answers with the load, 1 minute's average; transient where it is above a limit"
# labels = { team = "ops" }
# [limits]
# timeout = "5s"
# ///
set -euo pipefail

handler() {
    local load _
    read -r load _ </proc/loadavg
    if [[ -v DATA ]] && jq -e --argjson load "$load" '$load > .limit' <<<"$DATA" >/dev/null; then
        echo "the load is $load" >&2
        exit 75
    fi
    jq -cn --argjson load "$load" '{load: $load}'
}
