#!/usr/bin/env bash
# Checks the Debian package that `make deb` built: lintian and man find nothing, and in a fresh Debian it installs, keeps
# people's data on an upgrade and on removal, restarts nothing on an upgrade with a mistake in the configuration, leaves nothing
# after a purge, and is restored from a backup by the commands of docs/operations.md. As root; systemd does not run in there (the
# tests in a virtual machine see to that part). The network is needed once, by apt. `--fresh` only makes that Debian.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

for program in mmdebstrap lintian man; do
    command -v "$program" >/dev/null || die "$program is missing: apt-get install mmdebstrap lintian man-db"
done
[[ $(id -u) == 0 ]] || die "needs root, for chroot"

fresh=$target/debian/bookworm.tar
if [[ ! -f $fresh ]]; then
    say "making a fresh Debian"
    mkdir -p "$target/debian"
    three_times mmdebstrap --quiet --format=tar --variant=minbase --include=systemd bookworm "$fresh.new"
    mv "$fresh.new" "$fresh"
fi
[[ ${1:-} != --fresh ]] || exit 0

debs=("$target"/debian/fnd_*_"$(dpkg --print-architecture)".deb)
deb=${1:-${debs[-1]}}
[[ -f $deb ]] || die "no package: run make deb first"

say "lintian"
# The suite it is for is not Debian's own.
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file "$deb"

place=$(mktemp -d)
trap 'rm -rf --one-file-system -- "$place"' EXIT

say "man pages"
dpkg-deb -x "$deb" "$place/content"
while read -r page; do
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings --local-file "$page" 2>&1 >/dev/null)
    [[ -z $warnings ]] || die "$page: $warnings"
done < <(find "$place/content/usr/share/man" -name '*.gz')

say "install, upgrade, remove, purge"
mkdir "$place/debian"
tar --extract --file "$fresh" --directory "$place/debian" --exclude './dev/*'
cp "$deb" "$place/debian/fnd.deb"
cp "$root/scripts/test-deb-inside.sh" "$place/debian/inside.sh"
cp "$root/docs/operations.md" "$place/debian"
# Mounts and processes of its own, which end with it.
unshare --mount --pid --fork --mount-proc="$place/debian/proc" chroot "$place/debian" /bin/bash /inside.sh
say "$(basename "$deb") is fine"
