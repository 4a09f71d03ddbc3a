#!/usr/bin/env bash
# Installs the programs that `make bench` compares fnd with: the Functions Framework for python and for node, below
# target/bench, and Debian's webhook (as root; otherwise the one on the PATH is measured, if there is one).
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

if ! command -v webhook >/dev/null; then
    # The package has a service, which is not measured; without a configuration of its own it does not start.
    webhook() { DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y webhook >/dev/null; }
    { [[ $(id -u) == 0 ]] && webhook; } || say "not installed, so not measured: webhook (apt-get install webhook)"
fi
