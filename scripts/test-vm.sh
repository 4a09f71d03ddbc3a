#!/usr/bin/env bash
# Tests the package on a real Debian with systemd and cgroup v2, in a virtual machine with emulated CPUs. Arguments are parts of
# scenarios' names; without, all of them run; `--changed` runs five of them unless something that needs all has changed since the
# commit that tests/vm/PASSED names. `VM=debian13` boots Debian 13, `FND_VM_PACKAGE` names a package that is there
# already, `FND_VM_OLDER` one of an older version to upgrade from (else the same one, packed anew), `FND_VM_KVM=1` uses the
# CPUs of the host.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

for tool in qemu-system-x86_64 qemu-img mke2fs gpg gpg-agent apt-ftparchive; do
    command -v "$tool" >/dev/null || die "no $tool: scripts/setup.sh --ci brings it"
done
package=${FND_VM_PACKAGE:-$(scripts/deb.sh | tail -n 1)}
FND_VM_IMAGE=$(scripts/vm-image.sh)
build_dev -p fnd-tests --bin vm

FND_VM_WORK=$target/vm/run
FND_VM_PAYLOAD=$FND_VM_WORK/payload
mkdir -p "$FND_VM_WORK"
export FND_VM_IMAGE FND_VM_WORK FND_VM_PAYLOAD

# The machine's second disk.
stage=$(mktemp -d)
keys=$(mktemp -d)
trap 'rm -rf -- "$stage" "$keys"' EXIT
chmod 0755 "$stage" # apt in the machine reads the repository as another user
cp "$package" "$stage/fnd.deb"
if [[ -n ${FND_VM_OLDER:-} ]]; then
    cp "$FND_VM_OLDER" "$stage/other.deb"
else
    # Here, and not compressed, since the CPUs of the machine are emulated.
    dpkg-deb -R "$package" "$stage/other"
    sed -i 's/^Version: .*/&+next/' "$stage/other/DEBIAN/control"
    dpkg-deb -Znone -b "$stage/other" "$stage/other.deb" >&2
    rm -r "$stage/other"
fi
# The repository of both packages, signed by the old key, by both and by the new one.
make_repository() {
    local -x GNUPGHOME=$keys FND_REPO=$stage/repo FND_REPO_URL=file:/srv/repo FND_REPO_KEY
    local name old new own
    local -A names
    for name in old new; do
        gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign never
    done
    mapfile -t own < <(gpg --batch --list-secret-keys --with-colons | awk -F : '$1 == "fpr" { print $10 }')
    old=${own[0]} new=${own[1]}
    for name in old both new; do
        case $name in
            old) FND_REPO_KEY=$old ;;
            both) FND_REPO_KEY="$old $new" ;;
            new) FND_REPO_KEY=$new ;;
        esac
        scripts/repo.sh "$stage/fnd.deb" "$stage/other.deb" || return
        cp -r "$FND_REPO/dists/." "$FND_REPO/$name"
        cp "$FND_REPO/fnd-archive-keyring.pgp" "$FND_REPO/$name.pgp"
    done
    # Each package once on the disk.
    for name in fnd other; do
        # shellcheck disable=SC2016 # dpkg-deb expands them
        names[$name]=$(dpkg-deb --show --showformat='${Package}_${Version}_${Architecture}.deb' "$stage/$name.deb")
        rm "$stage/$name.deb"
        ln -s "repo/pool/main/f/fnd/${names[$name]}" "$stage/$name.deb"
    done
    gpgconf --kill all
}
make_repository >&2
cp tests/vm/guest/agent.py "$stage/"
install -m 0755 "$(find_deno)" "$stage/deno"
rm -f "$FND_VM_PAYLOAD"
mke2fs -q -t ext4 -L payload -d "$stage" "$FND_VM_PAYLOAD" "$(($(du -sm "$stage" | cut -f 1) + 64))M" >&2

"$target/debug/vm" "$@"
