#!/usr/bin/env bash
# Tests `make repo` with an apt of its own below a temporary directory; the machine's apt is not touched, root is not needed. A machine
# finds and would install a version, sees the next one, refuses lists that somebody changed and another one's signature, and goes on
# through a change of keys. Argument: a package (target/debian/fnd_*.deb).
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

deb=${1:-$(newest "$target"/debian/fnd_*_"$(dpkg --print-architecture)".deb)}
[[ -f $deb ]] || die "no package: run make deb first"

place=$(mktemp -d)
trap 'GNUPGHOME=$place/keys gpgconf --kill all 2>/dev/null || true; rm -rf -- "$place"' EXIT
# apt reads lists as another user when root calls it.
chmod 0755 "$place"
export FND_REPO=$place/repo

# The machine: its apt knows the repository alone, and its packages are those of this machine.
machine=$place/machine
mkdir -p "$machine"/{etc/apt/{sources.list.d,apt.conf.d,preferences.d,trusted.gpg.d},state/lists/partial,cache/archives/partial}
# Without what this machine may have of fnd.
awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^Package: fnd(-archive-keyring)?\n/' /var/lib/dpkg/status >"$machine/state/status"
apt=(-o Dir="$machine" -o Dir::Etc="$machine/etc/apt" -o Dir::State="$machine/state" -o Dir::State::status="$machine/state/status"
    -o Dir::Cache="$machine/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none -o Debug::NoLocking=1 -o APT::Update::Error-Mode=any)
update() { apt-get -q "${apt[@]}" update 2>&1; }
must() { # SENTENCE COMMAND...: prints what the command says if it fails
    local sentence=$1 output
    shift
    output=$("$@") || die "$sentence: $output"
}
refused() { # SENTENCE WORDS
    local output
    ! output=$(update) || die "$1 is accepted: $output"
    [[ $output == *$2* ]] || die "$1 is refused for another reason: $output"
}
candidate() { apt-cache "${apt[@]}" policy fnd | awk '$1 == "Candidate:" { print $2 }'; }
# Takes the keyring that a machine has after the upgrade of fnd-archive-keyring.
upgrade_keyring() {
    (cd "$place" && apt-get -q "${apt[@]}" download fnd-archive-keyring >/dev/null 2>&1) || die "apt cannot download the keyring"
    dpkg-deb -x "$place"/fnd-archive-keyring_*.deb "$place/unpacked"
    rm "$place"/fnd-archive-keyring_*.deb
    cp "$place/unpacked/usr/share/keyrings/fnd-archive-keyring.pgp" "$machine/keyring.pgp"
}
key() { # NAME: makes a key, prints its fingerprint
    gpg --batch --quiet --no-auto-check-trustdb --passphrase '' --quick-generate-key "$1" ed25519 sign never
    gpg --batch --quiet --no-auto-check-trustdb --list-secret-keys --with-colons "$1" | awk -F : '$1 == "fpr" { print $10; exit }'
}
export GNUPGHOME=$place/keys
mkdir -m 0700 "$GNUPGHOME"
old=$(key old) new=$(key new) strange=$(key strange)
repo() { # KEYS PACKAGE...
    local keys=$1 output
    shift
    output=$(FND_REPO_KEY=$keys "$root/scripts/repo.sh" "$@" 2>&1) || die "repo.sh: $output"
}

say "a first version"
(umask 077 && repo "$old" "$deb")
! find "$FND_REPO" ! -perm -o=r | grep . || die "a web server cannot read these"
cp "$FND_REPO/fnd-archive-keyring.pgp" "$machine/keyring.pgp"
sed "s#/usr/share/keyrings/fnd-archive-keyring.pgp#$machine/keyring.pgp#" "$FND_REPO/fnd.sources" >"$machine/etc/apt/sources.list.d/fnd.sources"
must "apt update" update
version=$(dpkg-deb -f "$deb" Version)
[[ $(candidate) == "$version" ]] || die "apt sees $(candidate), not $version"
installs=$(apt-get -q "${apt[@]}" --no-install-recommends --simulate install fnd fnd-archive-keyring 2>&1) || die "apt would not install fnd: $installs"
[[ $installs == *"Inst fnd ($version "* ]] || die "apt would install something else: $installs"

say "a key for trials"
output=$(env --unset=FND_REPO --unset=GNUPGHOME CARGO_TARGET_DIR="$place/target" "$root/scripts/repo.sh" "$deb" 2>&1) || die "repo.sh: $output"
gpgv --quiet --keyring "$place/target/repo/fnd-archive-keyring.pgp" "$place/target/repo/dists/stable/InRelease" 2>/dev/null ||
    die "the keyring does not fit to the signature"
! find "$place/target/repo" | grep -E 'private|secret|repo-key' || die "the secret key lies where everybody can fetch it"
GNUPGHOME=$place/target/repo-key gpgconf --kill all

say "an upgrade"
# Without its files: apt reads the fields.
mkdir -p "$place/next/DEBIAN"
dpkg-deb -f "$deb" >"$place/next/DEBIAN/control"
sed -i 's/^Version: .*/&+next/' "$place/next/DEBIAN/control"
next=$place/fnd_${version}+next_$(dpkg-deb -f "$deb" Architecture).deb
dpkg-deb --root-owner-group -b "$place/next" "$next" >/dev/null
keyrings() { find "$FND_REPO/pool" -name 'fnd-archive-keyring_*' | wc -l; }
repo "$old" "$next"
[[ $(keyrings) == 1 ]] || die "an unchanged keyring became another package"
# As if the first version were installed.
{
    printf 'Status: install ok installed\n'
    dpkg-deb -f "$deb" Package Version Architecture Maintainer Description
    printf '\n'
} >>"$machine/state/status"
must "apt update" update
[[ $(candidate) == "$version+next" ]] || die "apt sees $(candidate), not $version+next"
installs=$(apt-get -q "${apt[@]}" --no-install-recommends --simulate upgrade 2>&1)
[[ $installs == *"Inst fnd [$version] ($version+next "* ]] || die "apt would not upgrade fnd: $installs"
apt-cache "${apt[@]}" madison fnd | grep -q " $version " || die "the version before is not offered any more"

say "what must be refused"
before=$(sha256sum <"$FND_REPO/pool/main/f/fnd/$(basename "$next")")
printf 'x' >"$place/other.deb"
! FND_REPO_KEY=$old "$root/scripts/repo.sh" "$place/other.deb" >/dev/null 2>&1 || die "a file that is no package is accepted"
! FND_REPO_KEY=' ' "$root/scripts/repo.sh" "$next" >/dev/null 2>&1 || die "no key is a key"
! FND_REPO=$place FND_REPO_KEY=$old "$root/scripts/repo.sh" "$next" >/dev/null 2>&1 || die "a repository around the secret keys is accepted"
[[ ! -e $place/pool ]] || die "a repository around the secret keys was begun"
cp -r "$FND_REPO" "$place/sound"
# A gpg that does not sign leaves all as it was before.
mkdir "$place/programs"
printf '#!/bin/sh\ncase " $* " in *" --clearsign "*) exit 2 ;; esac\nexec %s "$@"\n' "$(command -v gpg)" >"$place/programs/gpg"
chmod 0755 "$place/programs/gpg"
! PATH=$place/programs:$PATH FND_REPO_KEY="$old $new" "$root/scripts/repo.sh" "$next" >/dev/null 2>&1 || die "a repository without a signature is fine"
diff -r --exclude stable.new "$place/sound" "$FND_REPO" >&2 || die "a signature that failed has changed the repository"
dpkg-deb --root-owner-group -Znone -b "$place/next" "$place/again.deb" >/dev/null
! FND_REPO_KEY=$old "$root/scripts/repo.sh" "$place/again.deb" >/dev/null 2>&1 || die "a version gets another content"
[[ $before == "$(sha256sum <"$FND_REPO/pool/main/f/fnd/$(basename "$next")")" ]] || die "the package of a version was replaced"
lists() { rm -rf "$machine"/state/lists/* && mkdir -p "$machine/state/lists/partial"; }
change_lists() { # COMMAND...: changes the repository with it, as somebody in the network could
    rm -rf "$FND_REPO" && cp -r "$place/sound" "$FND_REPO"
    "$@"
    lists
}
changed_packages() {
    sed -i 's/^Version: .*/&+evil/' "$FND_REPO"/dists/stable/main/binary-*/Packages
    gzip -9nkf "$FND_REPO"/dists/stable/main/binary-*/Packages
}
not_signed() { ! FND_REPO_KEY=$old "$root/scripts/repo.sh" "$next" >/dev/null 2>&1 || die "$1 gets signed"; }
change_lists cp "$place/again.deb" "$FND_REPO/pool/main/f/fnd/fnd_99_all.deb"
not_signed "a package that somebody added to the pool"
change_lists sh -c "printf x >>$FND_REPO/pool/main/f/fnd/$(basename "$deb")"
not_signed "a package that somebody changed in the pool"
change_lists rm "$FND_REPO/dists/stable/InRelease"
not_signed "a pool without signed lists"
change_lists changed_packages
not_signed "a pool whose lists somebody changed"
refused "a changed Packages" "Hash Sum mismatch"
change_lists sed -i 's/^Suite: stable/Suite: staple/' "$FND_REPO/dists/stable/InRelease"
refused "a changed InRelease" "signature"
change_lists repo "$strange" "$next"
refused "another one's signature" "NO_PUBKEY"
change_lists rm "$FND_REPO/dists/stable/InRelease"
refused "a repository without a signature" "not signed"
change_lists sh -c "printf x >>$FND_REPO/pool/main/f/fnd/$(basename "$next")"
must "apt update, where a package was changed" update
! (cd "$machine/cache" && apt-get -q "${apt[@]}" download fnd >/dev/null 2>&1) || die "a changed package is accepted"
change_lists true
must "apt update of the sound repository" update

say "a change of keys"
repo "$old $new" "$next"
[[ $(keyrings) == 2 ]] || die "a new key makes no new keyring"
must "apt update with the old key, while both sign" update
upgrade_keyring
must "apt update with both keys" update
repo "$new" "$next"
must "apt update with both keys, when the new one signs" update
upgrade_keyring
lists
must "apt update with the new key alone" update
# A machine that missed the change, and one that is shown an old repository again.
gpg --batch --export "$old" >"$machine/keyring.pgp"
lists
refused "the new key on a machine that has the old one" "NO_PUBKEY"
gpg --batch --export "$new" >"$machine/keyring.pgp"
change_lists true
refused "the old key after the change" "NO_PUBKEY"
say "$(basename "$deb"): installed, upgraded, refused and signed anew as it should be"
