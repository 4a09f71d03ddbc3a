#!/usr/bin/env bash
# A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
#
# Standard output and standard error are the log: `fndctl logs` shows it.
set -euo pipefail

trap 'echo "stopping"; exit 0' TERM

echo "started"
while true; do
    date -u +%FT%TZ
    # In the background, so that SIGTERM does not wait for the end of the pause.
    sleep 10 &
    wait $!
done
