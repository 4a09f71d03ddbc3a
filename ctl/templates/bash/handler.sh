#!/usr/bin/env bash
# A handler: fnd reads this file once, then calls the function `handler` for each invocation.
#
# Standard input is the payload. Standard output is the result; standard error is the log.
# Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
set -euo pipefail

handler() {
    local payload
    payload=$(cat)
    echo "the payload has ${#payload} characters" >&2
    printf '{"hello": "%s", "attempt": %s}\n' "${USER}" "${FND_ATTEMPT}"
}
