#!/usr/bin/env bash
# Tests the package for arm64 (an argument, or the newest that `make deb ARCH=arm64` built) on a machine with another processor, by qemu's
# emulation of programs: what the package declares, that each program starts, and unit tests of the crates that read bytes of others.
# What makes cgroups, namespaces and filters of system calls needs a kernel of arm64, and is not tested.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

for program in qemu-aarch64-static aarch64-linux-gnu-gcc lintian readelf; do
    command -v "$program" >/dev/null ||
        die "$program is missing: apt-get install qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross lintian binutils"
done
deb=${1:-$(newest "$target"/debian/fnd_*_arm64.deb)}
[[ -f $deb ]] || die "no package: run make deb ARCH=arm64 first"
# The libraries of the cross compiler.
emulate=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)

say "package"
[[ $(dpkg-deb -f "$deb" Architecture) == arm64 ]] || die "$deb is for $(dpkg-deb -f "$deb" Architecture)"
depends=$(dpkg-deb -f "$deb" Depends)
[[ $depends == *'libc6 (>= '* && $depends != *:arm64* ]] || die "it depends on: $depends"
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file "$deb"
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
dpkg-deb -x "$deb" "$place"

say "programs"
version=$(dpkg-deb -f "$deb" Version)
for program in usr/sbin/fnd usr/bin/fndctl usr/libexec/fnd/fnd-{helper,spawner,web}; do
    [[ $(readelf --file-header "$place/$program") == *AArch64* ]] || die "$program is for another processor"
    # fnd-helper has no words for people.
    [[ $program != */fnd-helper ]] || continue
    said=$("${emulate[@]}" "$place/$program" --version) || die "$program does not start: $said"
    [[ $said == "$(basename "$program") $version" ]] || die "$program says: $said"
done
for file in manifest config; do
    "${emulate[@]}" "$place/usr/bin/fndctl" schema "$file" | cmp - "$place/usr/share/fnd/schema/$file.json" || die "fndctl schema $file differs from the file"
done

say "unit tests"
build_for_architecture arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${emulate[*]}"
# Emulation takes ten times as long: fewer cases of the property tests.
PROPTEST_CASES=${PROPTEST_CASES:-32} cargo test --locked --target aarch64-unknown-linux-gnu --lib -p fnd-wire -p fnd-unpack -p fnd-manifest
say "$(basename "$deb") is fine; not tried: a kernel of arm64"
