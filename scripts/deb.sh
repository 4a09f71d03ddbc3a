#!/usr/bin/env bash
# Builds the Debian package for this machine's architecture, or with `--arch arm64` for another one, and prints where it is.
# Unchanged parts are not built again. Another architecture needs its C compiler and its Rust standard library; the script says
# how to get them.
# `FND_PROFILE=dev` packs the programs of `cargo build`, which are slower, and makes no package of debug information: for tests of
# the package. `--tool` only installs the tools that build and pack.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

profile=${FND_PROFILE:-release}

# The built programs, and what depends on the architecture that they are for.
directory=$profile
[[ $profile != dev ]] || directory=debug
built=$target/$directory
cross=()
if [[ ${1:-} == --arch && ${2:-} != "$(dpkg --print-architecture)" ]]; then
    build_for_architecture "${2:-}"
    cross=(--target "$triple")
    built=$target/$triple/$directory
fi

installed=$target/tools
install_tool() { # NAME VERSION CARGO-OPTIONS...
    local name=$1 version=$2
    shift 2
    ! grep -qs "^\"$name $version " "$installed/.crates.toml" || return 0
    say "installing $name $version below $installed"
    # A debug build: it runs for seconds, so building it fast is what counts.
    CARGO_PROFILE_DEV_DEBUG=false CARGO_TARGET_DIR=$installed/build \
        cargo install "$name" --locked --version "$version" --debug --root "$installed" "$@" >&2
}
# Without its own xz: the system's is used.
install_tool cargo-deb 3.8.0 --no-default-features --features debug-id
[[ $profile == dev ]] || install_tool cargo-auditable 0.7.7
[[ ${1:-} != --tool ]] || exit 0

# Prints which libraries are linked into the programs, each with its licence and what that asks to be passed on. The
# Apache licence itself is on every Debian machine.
libraries() {
    local package place licence found
    local -A places
    # If this failed unseen, each crate would count as our own.
    found=$(cargo metadata --locked --format-version 1 |
        jq -r '.packages[] | select(.source) | "\(.name) v\(.version)\t\(.manifest_path | rtrimstr("/Cargo.toml"))"')
    while IFS=$'\t' read -r package place; do
        places[$package]=$place
    done <<<"$found"
    linked_crates "${cross[@]}" | while IFS=$'\t' read -r package licence; do
        # A crate without a place is our own.
        [[ -n ${places[$package]:-} ]] || continue
        printf '==== %s: %s\n\n' "$package" "$licence"
        find "${places[$package]}" -maxdepth 1 -type f ! -iname '*apache*' \
            \( -iname 'licen[sc]e*' -o -iname 'copy*' -o -iname 'notice*' -o -iname 'unlicense*' \) -print0 |
            sort -z | xargs -0r cat
        printf '\n'
    done
}

# Where the checkout and cargo's crates lie is not in the programs, so two builds of one commit are the same bytes. The list of their
# crates is in them, which scanners of machines read.
build_for_people() {
    local machine=${triple:-$(rustc -vV | sed -n 's/^host: //p')} place rust='' c=''
    # Of two places that match, the last one counts.
    for place in "${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo" "$root=/usr/src/fnd" "$target=/usr/src/fnd/target"; do
        rust+="\"--remap-path-prefix=$place\", "
        c+=" -ffile-prefix-map=$place"
    done
    # Beside the flags of .cargo/config.toml, which RUSTFLAGS would replace.
    CFLAGS="${CFLAGS:-}$c" "$installed/bin/cargo-auditable" auditable build --config "target.$machine.rustflags=[$rust]" \
        --profile "$profile" --locked "${programs[@]}" "${cross[@]}"
}

programs=(-p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl)
# What writes the documents runs on this machine.
writer=$target/debug/fnd-packaging
if [[ $profile == dev ]]; then
    build_dev "${programs[@]}" "${cross[@]}"
    build_dev -p fnd-packaging
elif ((${#cross[@]})); then
    build_for_people
    build_dev -p fnd-packaging
else
    # With the programs: it is made of their crates, which a debug build would compile once more.
    programs+=(-p fnd-packaging)
    writer=$built/fnd-packaging
    build_for_people
fi
scripts/check-spawner.sh "$built/fnd-spawner"

# Tests that start Python leave compiled files beside the shim.
find runtimes -name __pycache__ -prune -exec rm -rf {} +

# The package has the modes of these files, and a checkout has those of its umask.
chmod -R u=rwX,go=rX runtimes examples

# The same commit gives the same package (scripts/test-reproducible.sh). Only from here on: cargo would build SQLite again after every commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
# xz packs in other blocks with other numbers of threads; lists are sorted the same everywhere.
export SOURCE_DATE_EPOCH XZ_DEFAULTS=--threads=1 LC_ALL=C.UTF-8
stage=$built/package
rm -rf "$stage"
mkdir -p "$stage"
"$writer" "$stage"
libraries >"$stage/libraries"
scripts/sbom.sh "${cross[@]}" >"$stage/sbom.cdx.json"
gzip -9n "$stage"/*.[1578] "$stage"/{changelog,libraries,sbom.cdx.json}

# Debian's C library for cross compilers calls itself `libc6:arm64`. In a package of that architecture this means the same as
# `libc6`, which a package has that is built there.
if ((${#cross[@]})); then
    shlibdeps=$(command -v dpkg-shlibdeps)
    mkdir "$stage/bin"
    # shellcheck disable=SC2016 # the new script expands them
    printf '#!/bin/sh\nfound=$(%s "$@") || exit\nprintf "%%s\\n" "$found" | sed "s/:%s\\b//g"\n' "$shlibdeps" "$2" \
        >"$stage/bin/dpkg-shlibdeps"
    chmod +x "$stage/bin/dpkg-shlibdeps"
    PATH=$stage/bin:$PATH
fi

options=(--dbgsym --compress-debug-symbols)
[[ $profile == release ]] || options=(--fast)
"$installed/bin/cargo-deb" deb --quiet --no-build --profile "$profile" "${options[@]}" --compress-system --package fnd-packaging "${cross[@]}" --output "$target/debian/"
