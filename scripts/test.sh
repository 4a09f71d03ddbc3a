#!/usr/bin/env bash
# Runs every test of the workspace, and says which were skipped and why. `FND_REQUIRE=root,cgroup,deno` makes the skips of
# those failures. Arguments are passed on to the test runner (a filter, for example). With `FND_BUILT` it builds nothing
# (scripts/test-as-user.sh).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

FND_DENO=$(find_deno)
export FND_DENO
# A runner hides what a passing test prints, so skips are also written here.
export FND_SKIP_LOG=${FND_BUILT:-$target}/skipped
mkdir -p "$target"
: >"$FND_SKIP_LOG"

# The end-to-end tests start fnd and the others as programs, which building the tests alone does not build. Everything at once: cargo
# unites the features of what it is asked for, so naming the programs would build half of their dependencies twice.
[[ -n ${FND_BUILT:-} ]] || cargo build --workspace --all-targets --locked

# Prints the tests of a report that failed, and those that passed only at a second try (NEXTEST_RETRIES), each with where
# and why. The element of a failure has both: "thread ... panicked at FILE:LINE" as its attribute, the message on the next line.
name_failures() { # REPORT
    [[ -e $1 ]] || return 0
    awk '
        function attribute(name) {
            if (!match($0, " " name "=\"[^\"]*\"")) return ""
            return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        }
        first { print head ": " $0; first = 0 }
        /<testcase / { test = attribute("classname") " " attribute("name") }
        /<(failure|error|flakyFailure|flakyError) / {
            where = attribute("message")
            sub(/^.* panicked at /, "", where)
            head = (/<flaky/ ? "passed only at a second try" : "failed") ": " test ": " where
            first = test != named
            named = test
        }
    ' "$1" | sed 's/&apos;/'"'"'/g; s/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' | cut -c1-600 |
        while IFS= read -r line; do say "$line"; done
}

# Functions see nothing below the places that the profile strict hides, and enter no directory that is closed to others: that is
# where people clone. They always see the runtimes and a directory `interpreters` beside them, so a copy of all that the tests let
# functions use goes there.
functions_reach() { # DIRECTORY
    local hidden above
    for hidden in /boot /home /media /mnt /root /run /srv /tmp /var/log /var/mail /var/spool /var/tmp; do
        [[ $1/ != "$hidden"/* ]] || return 1
    done
    for ((above = 1; above; )); do
        # Another user needs the right to enter each directory.
        [[ $(stat -c %A "$1") == *[xt] ]] || return 1
        [[ $1 != / ]] || above=0
        set -- "$(dirname "$1")"
    done
}
place_programs() { # DIRECTORY
    mkdir -p "$1/interpreters"
    cp -R "$root/runtimes" "$1/runtimes"
    cp "$target"/debug/{fnd,fnd-helper,fnd-spawner,fnd-web,fndctl} "$1/interpreters/"
    [[ ! -x $FND_DENO ]] || cp "$FND_DENO" "$1/interpreters/deno"
    chmod -R u=rwX,go=rX "$1"
    export FND_BIN_DIR=$1/interpreters FND_TEST_RUNTIMES=$1/runtimes FND_DENO=$1/interpreters/deno
}

report=$target/nextest/default/junit.xml
rm -f "$report" # the one of another run

if ! functions_reach "$root"; then
    programs=$(mktemp -d "${TMPDIR:-/tmp}/fnd-programs.XXXXXX")
    trap 'rm -rf -- "$programs"' EXIT
    say "functions cannot reach $root: they use copies of its programs in $programs"
    place_programs "$programs"
fi

code=0
# Tests that start programs wait for most of their time, so that one for each CPU leaves it idle.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((2 * $(nproc)))}
if [[ -n ${FND_BUILT:-} ]]; then
    "$FND_BUILT/cargo-nextest" nextest run --cargo-metadata "$FND_BUILT/cargo.json" --binaries-metadata "$FND_BUILT/binaries.json" \
        --no-fail-fast "$@" || code=$?
elif command -v cargo-nextest >/dev/null; then
    # The output of the compiler is on the disk before the first test: else that test waits for gigabytes.
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
# Last, so that whoever sees only the end of a long log sees it.
name_failures "$report"
exit "$code"
