#!/usr/bin/env bash
# Draws the pictures of the documents: docs/pictures/*.svg from what the programs print, docs/pictures/page-*.png from what a browser
# shows (scripts/setup.sh --ci brings what drives it). It runs a private fnd on some of the examples, as root or not, and calls fndctl
# on a terminal of 100 columns. docs/pictures/file.svg is drawn by hand. A test compares the pictures with the columns of today.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

cargo build --locked -p fnd -p fnd-helper -p fnd-spawner -p fndctl -p fnd-web -p fnd-packaging
bin=$target/debug
home=$(mktemp -d "${TMPDIR:-/tmp}/fnd-pictures.XXXXXX")
chmod 0755 "$home"
mkdir -p "$home/functions/ops" "$home/functions/web" "$home/state" "$home/run"
cp -R runtimes "$home/runtimes"
chmod -R u=rwX,go=rX "$home/runtimes"
for example in backup.sh csv-report.py disk-space.sh load-average ops/heartbeat.sh ops/heartbeat.toml ops/watch-root.sh web/hello.py web/order.py; do
    cp "examples/functions/$example" "$home/functions/$example"
done
chmod -R go-w "$home/functions"
# Other users than those of an fnd that is installed or that `make run` started.
printf '[users]\nrange = [62000, 62998]\n' >"$home/fnd.toml"

"$bin/fnd" --config "$home/fnd.toml" --functions "$home/functions" --runtimes "$home/runtimes" --state "$home/state" \
    --run-dir "$home/run" --best-effort-limits >"$home/log" 2>&1 &
fnd=$!
# The second signal ends what runs, the service among it.
trap 'kill -TERM "$fnd"; kill -TERM "$fnd" 2>/dev/null; wait "$fnd" 2>/dev/null; rm -rf -- "$home"' EXIT
export FND_SOCKET=$home/run/control.sock PATH=$bin:$PATH TZ=UTC

soon() { # COMMAND...
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1 # there is nothing to wait on
    done
    cat "$home/log" >&2
    die "$* does not succeed"
}
succeeded() { fndctl status "$1" -o json | jq -e '.runs >= 1'; }

picture() { # NAME COMMAND: draws what a person sees who types the command
    local name=$1 command=$2
    {
        printf '\033[1m$ %s\033[0m\n' "$command"
        # A terminal, for colours and widths; the command may fail. The private directory is the one of an installed fnd; what
        # this machine cannot enforce is no part of the picture.
        script --quiet --command "stty cols 100; $command" /dev/null </dev/null |
            sed -e 's/\r//g' -e "s|$home/functions|/etc/fnd/functions|g" -e '/^not enforced here/d' || true
    } | fnd-packaging --picture >"docs/pictures/$name.svg"
    say "docs/pictures/$name.svg"
}

mkdir -p docs/pictures
soon fndctl status
for name in disk-space load-average ops/heartbeat; do
    soon succeeded "$name"
done
for ((call = 0; call < 20; call++)); do
    fndctl invoke web/hello -d '{}' >/dev/null
done
fndctl invoke web/order -d '{"items": [{"price": 2.5, "count": 2}]}' >/dev/null

picture failure "fndctl invoke disk-space -d '{\"warn_percent\": 1}'"
picture status 'fndctl status'
picture history 'fndctl history -n 6'

if [[ -e $target/tools/page/installed.txt ]]; then
    FNDCTL=$(realpath "$bin/fndctl") FND_FUNCTIONS=$home/functions FND_CHROMIUM=${FND_CHROMIUM:-/usr/bin/chromium} \
        FND_PAGE_TOOLS=$target/tools/page "$target/tools/page/python/bin/python" -B tests/page/pictures.py docs/pictures
    say "docs/pictures/page-*.png"
else
    say "no pictures of the page: run scripts/setup.sh --ci"
fi
