#!/usr/bin/env bash
# Runs every test of the workspace, and says which were skipped and why. `FND_REQUIRE=root,cgroup,deno` makes the skips of
# those failures. Arguments are passed on to the test runner (a filter, for example).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

FND_DENO=$(find_deno)
export FND_DENO
# A runner hides what a passing test prints, so skips are also written here.
export FND_SKIP_LOG=$target/skipped
mkdir -p "$target"
: >"$FND_SKIP_LOG"

# The end-to-end tests start these as programs; building the tests alone does not build them.
build_dev -p fnd -p fnd-spawner -p fndctl

code=0
if command -v cargo-nextest >/dev/null; then
    # What the compiler has written is on the disk before the first test: else that one waits for gigabytes.
    cargo nextest run --workspace --locked --no-run
    sync
    cargo nextest run --workspace --locked --no-fail-fast "$@" || code=$?
else
    cargo test --workspace --locked --no-fail-fast --lib --bins --tests "$@" || code=$?
fi
if (($# == 0)); then
    cargo test --workspace --locked --quiet --doc || code=$?
fi

if [[ -s $FND_SKIP_LOG ]]; then
    say "skipped on this machine:"
    sort -u "$FND_SKIP_LOG" | sed 's/^/    /' >&2
else
    say "nothing was skipped"
fi
exit "$code"
