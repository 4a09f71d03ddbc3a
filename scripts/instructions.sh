#!/usr/bin/env bash
# Counts what a warm call of a handler in python costs fnd: instructions by thread, crate and function, by callgrind, and system calls,
# by strace. It needs no hardware counters, which virtual machines lack, and the counts of the main thread repeat within some percent.
# They say where work is, not how long it takes: a missed cache counts nothing, and each byte of a `rep movsb` counts. fnd is slower
# here, so that the ledger and the audit store fewer calls at once than usual.
#
# Callgrind begins again at zero after the start and 500 calls, so the tables have the next CALLS calls (1000) and nothing else.
# THREAD=ledger prints the functions of that thread in place of `main`. The programs are built as for people, in whose programs
# functions are inlined into others: the table by crate has the lines where they were written. FND_BIN_DIR=DIRECTORY takes programs
# that are built already.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

calls=${CALLS:-1000} thread=${THREAD:-main}
for tool in valgrind vgdb strace curl python3; do
    command -v "$tool" >/dev/null || die "no $tool: apt install valgrind strace curl python3"
done
if [[ -z ${FND_BIN_DIR:-} ]]; then
    cargo build --release --locked -p fnd -p fnd-helper -p fnd-spawner --bins >&2
fi
bin=$(cd "${FND_BIN_DIR:-$target/release}" && pwd)

home=$(mktemp -d "${TMPDIR:-/tmp}/fnd-instructions.XXXXXX")
# Functions run as users of their own and must reach their code through it.
chmod 0755 "$home"
# Copies, since the files of a checkout may be writable by others, which fnd refuses.
cp -R "$root/runtimes" "$home/runtimes"
chmod -R u=rwX,go=rX "$home/runtimes"
# fnd watches the parent of its functions, and would get an event for each line that is written there.
mkdir "$home/functions" "$home/log"
printf 'def handler(event, context):\n    return "hello"\n' >"$home/functions/warm.py"
# Other users than those of an fnd that is installed or that another script started.
printf '[users]\nrange = [63000, 63998]\n' >"$home/fnd.toml"
limits=(--best-effort-limits)
! can_limit || limits=(--cgroup-root "fnd-instructions-$$")

fnd=
end() {
    [[ -n $fnd ]] || return 0
    kill -TERM "$fnd" 2>/dev/null || true # it has ended by itself
    wait "$fnd" || true
    fnd=
}
trap 'end; rm -rf -- "$home"' EXIT

failed() { # TEXT
    cat "$home/log/fnd" >&2
    die "$*"
}
soon() { # TEXT COMMAND...
    local text=$1 tries
    shift
    for ((tries = 0; tries < 600; tries++)); do
        if "$@" >/dev/null 2>&1; then return; fi
        kill -0 "$fnd" 2>/dev/null || failed "fnd ended before it $text"
        sleep 0.1 # there is nothing to wait on
    done
    failed "fnd has not $text"
}
ask() { curl --silent --show-error --fail-early --fail --unix-socket "$home/run/control.sock" "$@"; }
is_ready() { ask http://fnd/v1/functions | grep -q '"state":"ready"'; }
# One connection, as a program has it; the fragment, which is not sent, makes curl repeat the request.
call() { ask --output /dev/null --request POST "http://fnd/v1/functions/warm/invoke#[1-$1]" || failed "a call failed"; }

# Starts fnd behind a program, and makes calls that do not count.
start() { # COMMAND...
    rm -rf "$home/state" "$home/run"
    mkdir "$home/state" "$home/run"
    "$@" "$bin/fnd" --config "$home/fnd.toml" --functions "$home/functions" --runtimes "$home/runtimes" --state "$home/state" \
        --run-dir "$home/run" "${limits[@]}" >"$home/log/fnd" 2>&1 &
    fnd=$!
    soon "made its function ready" is_ready
    call 500
}

# Prints the name of a thread, which for the first one is that of the program.
name_of() { # ID
    if [[ $1 == "$fnd" ]]; then printf 'main\n'; else cat "/proc/$fnd/task/$1/comm"; fi
}
# Prints the number that callgrind gives each thread, and its name.
numbers() {
    local number id
    vgdb --pid="$fnd" v.info scheduler 2>/dev/null | sed -n 's/^Thread \([0-9]*\):.*(lwpid \([0-9]*\)).*/\1 \2/p' |
        while read -r number id; do printf '%s %s\n' "$number" "$(name_of "$id")"; done
}
# Each file ends with `-` and the number of the thread.
dump() { vgdb --pid="$fnd" dump >/dev/null 2>&1 || failed "callgrind does not answer"; }

say "counting instructions of $calls calls"
start python3 scripts/instructions.py --without-auxv valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$home/log/profile"
dump
call "$calls"
dump
numbers >"$home/numbers"
end

is_traced() { ! grep -q '^TracerPid:[[:space:]]*0$' "/proc/$fnd/task/"*/status; }
say "counting system calls of $calls calls"
start env
strace -f -qqq -o "$home/log/trace" -p "$fnd" 2>/dev/null &
strace=$!
soon "been traced" is_traced
call "$calls"
# SIGTERM lets strace detach from the threads.
kill -TERM "$strace"
wait "$strace" || true
for task in "/proc/$fnd/task/"*; do
    printf '%s %s\n' "${task##*/}" "$(name_of "${task##*/}")"
done >"$home/ids"
end
python3 scripts/instructions.py "$calls" "$thread" "$home/numbers" "$home/ids" "$home/log/trace" "$home/log/profile.2-"*
