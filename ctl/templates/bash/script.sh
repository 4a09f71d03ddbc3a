#!/usr/bin/env bash
# A script: each run is a process of its own.
#
# Standard input is the payload, and so is $DATA. Standard output is the result; standard error is the log.
# Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
set -euo pipefail

echo "run ${FND_INVOCATION}, attempt ${FND_ATTEMPT}, started by ${FND_TRIGGER}" >&2
words=$(wc -w)
printf '{"words": %s}\n' "$words"
