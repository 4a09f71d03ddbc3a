#!/usr/bin/env bash
# Builds fnd and runs it in the foreground on the directory DIR, without it on `functions` in the checkout: at first a copy of the
# examples, for your own files. fnd's state is in a temporary directory that is removed afterwards. Ctrl-C ends fnd when running
# work has finished, a second Ctrl-C at once. Arguments are passed to fnd.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

# A debug build: a checkout is run to try something, so the seconds until it answers count, not microseconds per run.
say "building fnd; the first build takes a few minutes"
cargo build --locked -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl || die "the build failed"
bin=$target/debug

home=$(mktemp -d "${TMPDIR:-/tmp}/fnd-run.XXXXXX")
trap 'rm -rf -- "$home"' EXIT
# Functions run as users of their own and must reach their code through it; private files below have modes of their own.
chmod 0755 "$home"
mkdir "$home/state" "$home/run"

# Copies, since the files of a checkout may be writable by others, which fnd refuses, or in a place that only root may enter. The
# sandbox shows `interpreters` beside the runtimes to every function; it may hide the checkout.
deno=$home/interpreters/deno/bin/deno
install -D -m 0755 "$(find_deno)" "$deno"
runtimes=$home/runtimes
cp -R "$root/runtimes" "$runtimes"
chmod -R u=rwX,go=rX "$runtimes"

functions=${DIR:-$root/functions}
if [[ ! -d $functions ]]; then
    say "copying the examples to $functions"
    cp -R "$root/examples/functions" "$functions"
    # Only `scripts/setup.sh --ci` installs these interpreters. A copy that cannot run would stay an error in the table.
    while read -r suffix interpreter package; do
        if [[ ! -x $interpreter ]]; then
            say "without $package there are no examples of it: \`apt install $package\`, then copy *.$suffix from examples/functions/web"
            find "$functions" -name "*.$suffix" -delete
        fi
    done <<<"go /usr/bin/go golang-go
java /usr/bin/java default-jdk-headless
php /usr/bin/php php-cli
rb /usr/bin/ruby ruby
lua /usr/bin/lua5.4 lua5.4"
fi
functions=$(cd "$functions" && pwd)
# fnd refuses files that others could change, and a clone has such files where new files are group-writable.
if [[ $functions == "$root"/* ]]; then
    chmod -R go-w "$functions"
    chmod go-w "$root"
fi
above=$functions
while [[ $above != / ]]; do
    if [[ ! -k $above && -n $(find "$above" -maxdepth 0 -perm /022) ]]; then
        say "others can change $above, so fnd refuses functions below it: \`chmod go-w $above\`, or another directory: \`make run DIR=...\`"
    fi
    above=$(dirname "$above")
done

cat >"$home/fnd.toml" <<TOML
[runtimes]
deno = { interpreters = { "2" = "$deno" } }

# Other users than the default: fnd may be installed on this machine, and two instances may not share any.
[users]
range = [66000, 69998]
TOML

arguments=(--config "$home/fnd.toml" --functions "$functions" --runtimes "$runtimes"
    --state "$home/state" --run-dir "$home/run")
if ! can_limit; then
    arguments+=(--best-effort-limits)
    say "no root or no writable cgroups: limits are not enforced (docs/configuration.md)"
fi

# A process group of its own, so that Ctrl-C reaches this script alone and fnd gets it once.
set -m
"$bin/fnd" "${arguments[@]}" "$@" &
fnd=$!
set +m
trap 'kill -INT "$fnd" 2>/dev/null' INT
trap 'kill -TERM "$fnd" 2>/dev/null' TERM HUP

socket=$home/run/control.sock
cat >"$home/env" <<TEXT
export FND_SOCKET=$socket FND_CONFIG=$home/fnd.toml FND_FUNCTIONS=$(printf %q "$functions") FND_RUNTIMES=$runtimes
PATH=$(printf %q "$bin"):\$PATH
TEXT
for ((waited = 0; waited < 150; waited++)); do
    kill -0 "$fnd" 2>/dev/null || break
    if table=$("$bin/fndctl" --socket "$socket" status 2>/dev/null); then
        cat >&2 <<TEXT

$table

fnd runs the functions in $functions. Save a file there: it is a function.
In another terminal, \`. $home/env\` tells fndctl where this fnd is. Then three things to try:

    fndctl invoke csv-report -d \$'name,size\na,1\nb,2'
    fndctl logs inventory
    fndctl new hello --runtime python

Its log follows; Ctrl-C stops it.

TEXT
        break
    fi
    sleep 0.2 # for the socket to answer: there is nothing else to wait on from a shell
done

code=0
while kill -0 "$fnd" 2>/dev/null; do
    wait "$fnd" && code=0 || code=$?
done
# A shell that was interrupted in `wait` still knows the exit code of the child.
wait "$fnd" 2>/dev/null && code=0 || code=$?
((code == 127)) && code=0
exit "$code"
