#!/usr/bin/env bash
# Installs what `make bench` compares handlers with, below target/bench: the Functions Framework for python and for node.
# A program that cannot be installed (no network, no npm) is reported and left out of the benchmark.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Pinned versions, so that figures of different days are comparable.
python_version=3.10.2
node_version=5.0.5

python() {
    /usr/bin/python3 -m venv "$target/bench/python" &&
        "$target/bench/python/bin/pip" install --quiet --disable-pip-version-check "functions-framework==$python_version"
}
node() {
    npm install --prefix "$target/bench/node" --no-audit --no-fund --loglevel=error \
        "@google-cloud/functions-framework@$node_version"
}

install() { # LANGUAGE PROGRAM
    [[ -x $target/bench/$2 ]] && return
    mkdir -p "$target/bench/$1"
    say "installing the Functions Framework for $1 below $target/bench"
    "$1" >&2 || say "not installed, so not measured: the Functions Framework for $1"
}

install python python/bin/functions-framework
install node node/node_modules/.bin/functions-framework
