#!/usr/bin/env bash
# Builds the Debian package for this machine's architecture, or with `--arch arm64` for another one, and prints where it is.
# Unchanged parts are not built again. Another architecture needs its C compiler and its Rust standard library; the script says
# how to get them.
# `FND_PROFILE=dev` packs the programs of `cargo build`, which are slower, and makes no package of debug information: for tests of
# the package. `--tool` only installs the tool that packs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

tool_version=3.8.0
profile=${FND_PROFILE:-release}

# The built programs, and what depends on the architecture that they are for.
directory=$profile
[[ $profile != dev ]] || directory=debug
built=$target/$directory
cross=()
if [[ ${1:-} == --arch && ${2:-} != "$(dpkg --print-architecture)" ]]; then
    case ${2:-} in
        arm64) triple=aarch64-unknown-linux-gnu tools=aarch64-linux-gnu ;;
        amd64) triple=x86_64-unknown-linux-gnu tools=x86_64-linux-gnu ;;
        *) die "--arch ${2:-} is not known: amd64, arm64" ;;
    esac
    command -v "$tools-gcc" >/dev/null || die "no $tools-gcc: apt install gcc-$tools libc6-dev-$2-cross"
    [[ -d $(rustc --print sysroot)/lib/rustlib/$triple ]] || die "no Rust for $triple: rustup target add $triple"
    name=${triple//-/_}
    export "CARGO_TARGET_${name^^}_LINKER=$tools-gcc" "CC_$name=$tools-gcc" "AR_$name=$tools-ar" NM="$tools-nm"
    cross=(--target "$triple")
    built=$target/$triple/$directory
fi

tool=$target/tools/bin/cargo-deb
if [[ $("$tool" --version 2>/dev/null) != "cargo-deb $tool_version" ]]; then
    say "installing cargo-deb $tool_version below $target/tools"
    # A debug build: it runs for seconds, so building it fast is what counts. Without its own xz: the system's is used.
    CARGO_PROFILE_DEV_DEBUG=false CARGO_TARGET_DIR=$target/tools/build \
        cargo install cargo-deb --locked --version "$tool_version" --no-default-features --features debug-id --debug --root "$target/tools" >&2
fi
[[ ${1:-} != --tool ]] || exit 0

# Prints which libraries are linked into the programs, each with its licence and what that asks to be passed on. The
# Apache licence itself is on every Debian machine.
libraries() {
    local package place licence
    local -A places
    while IFS=$'\t' read -r package place; do
        places[$package]=$place
    done < <(cargo metadata --locked --format-version 1 |
        jq -r '.packages[] | select(.source) | "\(.name) v\(.version)\t\(.manifest_path | rtrimstr("/Cargo.toml"))"')
    cargo tree --locked --edges normal,no-proc-macro --prefix none --format $'{p}\t{l}' -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl |
        sort -u | while IFS=$'\t' read -r package licence; do
        # Empty lines stand between the programs; a crate without a place is our own.
        [[ -n $package && -n ${places[$package]:-} ]] || continue
        printf '==== %s: %s\n\n' "$package" "$licence"
        find "${places[$package]}" -maxdepth 1 -type f ! -iname '*apache*' \
            \( -iname 'licen[sc]e*' -o -iname 'copy*' -o -iname 'notice*' -o -iname 'unlicense*' \) -print0 |
            sort -z | xargs -0r cat
        printf '\n'
    done
}

programs=(-p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl)
if [[ $profile == dev ]]; then
    build_dev "${programs[@]}" "${cross[@]}"
else
    cargo build --profile "$profile" --locked "${programs[@]}" "${cross[@]}"
fi
scripts/check-spawner.sh "$built/fnd-spawner"
# A debug build, as above.
build_dev -p fnd-packaging

# Tests that start Python leave compiled files beside the shim.
find runtimes -name __pycache__ -prune -exec rm -rf {} +

# The same commit gives the same package. Only from here on: cargo would build SQLite again after every commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
stage=$built/package
rm -rf "$stage"
mkdir -p "$stage"
"$target/debug/fnd-packaging" "$stage"
libraries >"$stage/libraries"
gzip -9n "$stage"/*.[1578] "$stage/changelog" "$stage/libraries"

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
"$tool" deb --quiet --no-build --profile "$profile" "${options[@]}" --compress-system --package fnd-packaging "${cross[@]}" --output "$target/debian/"
