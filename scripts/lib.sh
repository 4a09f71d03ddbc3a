# Shared by the scripts beside it; sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Runs a command that needs the network, up to three times.
three_times() { # COMMAND...
    local try
    for try in 1 2 3; do
        "$@" && return
        say "$1 failed, try $try of 3"
        ((try == 3)) || sleep 10 # for a mirror or a registry to be back: there is nothing to wait on
    done
    return 1
}

# Prints the file that was written last: what was built just now, whatever its version is.
newest() { # FILE...
    local file newest=$1
    for file in "$@"; do
        [[ ! $file -nt $newest ]] || newest=$file
    done
    printf '%s\n' "$newest"
}

# Builds programs that are used here and not shipped. In .ci/run the whole workspace is built already: cargo unites the features of
# what it is asked for, so naming single packages there would build half of their dependencies once more.
build_dev() { # CARGO-OPTIONS...
    # The whole workspace is built for this machine alone.
    if [[ -n ${FND_WHOLE_WORKSPACE:-} && " $* " != *" --target "* ]]; then
        set -- --workspace --all-targets
    fi
    cargo build --locked "$@"
}

# Has cargo build for another architecture of Debian with `--target "$triple"`, and sets that; the machine needs its C compiler and its
# Rust standard library.
build_for_architecture() { # ARCHITECTURE
    local tools name
    case $1 in
        arm64) triple=aarch64-unknown-linux-gnu tools=aarch64-linux-gnu ;;
        amd64) triple=x86_64-unknown-linux-gnu tools=x86_64-linux-gnu ;;
        *) die "--arch $1 is not known: amd64, arm64" ;;
    esac
    command -v "$tools-gcc" >/dev/null || die "no $tools-gcc: apt install gcc-${tools/_/-} libc6-dev-$1-cross"
    [[ -d $(rustc --print sysroot)/lib/rustlib/$triple ]] || die "no Rust for $triple: rustup target add $triple"
    name=${triple//-/_}
    export "CARGO_TARGET_${name^^}_LINKER=$tools-gcc" "CC_$name=$tools-gcc" "AR_$name=$tools-ar" NM="$tools-nm"
}

# Prints the crates that are linked into the programs of the package: NAME vVERSION, a tab, the licence.
linked_crates() { # CARGO-OPTIONS...
    # An asterisk in brackets stands behind what the list has named before.
    cargo tree --locked --edges normal,no-proc-macro --prefix none --format $'{p}\t{l}' -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl "$@" |
        sed -n 's/ (\*)$//; /./p' | sort -u
}

# Prints the real deno binary. `FND_DENO` wins (somebody's own), then the one set-up brought. A wrapper script on PATH is
# not used: a wrapper would be measured and confined in its place.
find_deno() {
    if [[ -n ${FND_DENO:-} ]]; then
        printf '%s\n' "$FND_DENO"
        return
    fi
    case $(uname -m) in
        x86_64) printf '%s\n' "$target/deno/node_modules/@deno/linux-x64-glibc/deno" ;;
        aarch64) printf '%s\n' "$target/deno/node_modules/@deno/linux-arm64-glibc/deno" ;;
        *) return 1 ;;
    esac
}

# Whether this process may make cgroups at the top of the tree that kills (cgroup2), and, where that has no controllers,
# in the memory hierarchy: then limits are enforced.
can_limit() {
    [[ $(id -u) == 0 ]] || return 1
    local tree=/sys/fs/cgroup
    [[ -e $tree/cgroup.controllers ]] || tree=/sys/fs/cgroup/unified
    local probe="$tree/fnd-probe-$$"
    mkdir "$probe" 2>/dev/null || return 1
    local killable=1
    [[ -w $probe/cgroup.kill ]] && killable=0
    rmdir "$probe"
    return "$killable"
}
