#!/usr/bin/env bash
# Checks the Debian package that `make deb` built: lintian and man find nothing, and in a fresh Debian it installs, keeps
# people's data on an upgrade and on removal, restarts nothing on an upgrade with a mistake in the configuration, leaves nothing
# after a purge, is installed by the role of Ansible, and is restored from a backup by the commands of docs/operations.md. As root;
# systemd does not run in there (the tests in a virtual machine see to that part). The network is needed once, by apt. `--fresh`
# only makes that Debian.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

for program in mmdebstrap lintian man; do
    command -v "$program" >/dev/null || die "$program is missing: apt-get install mmdebstrap lintian man-db"
done
[[ $(id -u) == 0 ]] || die "needs root, for chroot"

make_fresh() { # NAME PACKAGES
    local tar=$target/debian/$1.tar
    [[ ! -f $tar ]] || return 0
    say "making a fresh Debian with $2"
    mkdir -p "$target/debian"
    three_times mmdebstrap --quiet --format=tar --variant=minbase --include="$2" bookworm "$tar.new"
    mv "$tar.new" "$tar"
}
make_fresh bookworm systemd
make_fresh bookworm-ansible systemd,ansible-core,python3-apt
[[ ${1:-} != --fresh ]] || exit 0

deb=${1:-$(newest "$target"/debian/fnd_*_"$(dpkg --print-architecture)".deb)}
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

say "lists of crates"
if [[ ${FND_PROFILE:-release} != dev ]]; then
    for program in usr/sbin/fnd usr/bin/fndctl usr/libexec/fnd/fnd-{helper,spawner,web}; do
        # In a pipe, a grep that ends at its match would fail readelf now and then.
        [[ $(readelf --wide --section-headers "$place/content/$program") == *' .dep-v0 '* ]] || die "$program has no list of its crates (cargo auditable)"
    done
fi
crates=$(zcat "$place/content/usr/share/doc/fnd/sbom.cdx.json.gz" | jq -e '[.components[] | select(.purl and .hashes)] | length') || die "no list of crates: $crates"
((crates > 100)) || die "the list of crates has only $crates"

if command -v apparmor_parser >/dev/null && [[ -e /etc/apparmor.d/abi/4.0 ]]; then
    say "profile of AppArmor"
    apparmor_parser --skip-kernel-load --skip-cache "$place/content/usr/share/fnd/apparmor/fnd"
else
    say "no parser of AppArmor 4 here: the profile was not parsed"
fi

inside() { # NAME SCRIPT FILES...: runs a script in a fresh Debian that has the package and these files
    local debian=$place/$1
    mkdir "$debian"
    tar --extract --file "$target/debian/$1.tar" --directory "$debian" --exclude './dev/*'
    cp "$deb" "$debian/fnd.deb"
    cp "$root/scripts/$2" "$debian/inside.sh"
    cp -r "${@:3}" "$debian"
    # Mounts and processes of its own, which end with it.
    unshare --mount --pid --fork --mount-proc="$debian/proc" chroot "$debian" /bin/bash /inside.sh
}
say "install, upgrade, remove, purge"
inside bookworm test-deb-inside.sh "$root/docs/operations.md"
say "the role of Ansible"
inside bookworm-ansible test-deb-ansible.sh "$root/packaging/ansible"
say "$(basename "$deb") is fine"
