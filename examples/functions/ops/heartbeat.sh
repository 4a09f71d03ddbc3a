#!/usr/bin/env bash
# A function in a group is called GROUP/NAME: `fndctl invoke ops/heartbeat`. Its manifest is the file beside it.
set -euo pipefail
printf '{"host": "%s", "up_seconds": %.0f, "run": "%s"}\n' "$(uname -n)" "$(cut -d' ' -f1 /proc/uptime)" "$FND_INVOCATION"
