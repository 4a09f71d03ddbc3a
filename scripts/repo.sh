#!/usr/bin/env bash
# Makes a signed repository for apt of the packages in target/debian, and prints its directory (target/repo, or FND_REPO). Packages of
# before stay in it, so that machines can go back. Any web server can serve the directory; FND_REPO_URL is the address that machines use.
# FND_REPO_KEY names the key that signs, by its fingerprint in GnuPG. Without, a key is made below target, which `make clean` removes: for
# trials. Two fingerprints, "OLD NEW", sign with both, so that machines that have either go on: the first half of a change of keys.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

for program in apt-ftparchive gpg gpg-agent dpkg-deb; do
    command -v "$program" >/dev/null || die "$program is missing: apt-get install apt-utils gpg gpg-agent"
done
debs=("$@")
((${#debs[@]})) || debs=("$target"/debian/fnd_*.deb)
for deb in "${debs[@]}"; do
    [[ -f $deb ]] || die "no package: run make deb first"
    [[ $(dpkg-deb -f "$deb" Package) == fnd ]] || die "$deb is no package of fnd"
done

# A web server reads the repository as another user.
umask 022
repo=${FND_REPO:-$target/repo}
mkdir -p "$repo"
repo=$(cd "$repo" && pwd)
url=${FND_REPO_URL:-file:$repo}
pool=$repo/pool/main/f/fnd

# Prints the fingerprints of the keys in this home of GnuPG that can sign.
own_keys() { gpg --batch --list-secret-keys --with-colons 2>/dev/null | awk -F : '$1 == "sec" { key = 1 } key && $1 == "fpr" { print $10; key = 0 }'; }
[[ -n ${FND_REPO_KEY:-} ]] || GNUPGHOME=$target/repo-key
home=$(realpath -m "${GNUPGHOME:-$HOME/.gnupg}")
# Whole, since the lists are signed from within the repository.
[[ -z ${GNUPGHOME:-} ]] || export GNUPGHOME=$home
[[ $home/ != "$(realpath "$repo")"/* ]] || die "GnuPG has its secret keys in $home, which lies in the repository: choose another FND_REPO"
if [[ -z ${FND_REPO_KEY:-} ]]; then
    (umask 077 && mkdir -p "$GNUPGHOME")
    chmod 0700 "$GNUPGHOME"
    if [[ -z $(own_keys) ]]; then
        say "making a key for trials in $GNUPGHOME; for machines, name one of yours in FND_REPO_KEY"
        gpg --batch --quiet --passphrase '' --quick-generate-key "fnd repository <maintainers@fnd.example>" ed25519 sign never
    fi
    FND_REPO_KEY=$(own_keys)
fi
read -r -d '' -a keys <<<"$FND_REPO_KEY" || true
# Without a name, gpg would sign with any key, and export all of them.
((${#keys[@]})) || die "FND_REPO_KEY names no key"
signers=()
for key in "${keys[@]}"; do
    [[ $key =~ ^[0-9A-F]{40}$ ]] || die "FND_REPO_KEY: $key is no fingerprint of 40 digits (gpg --list-secret-keys)"
    gpg --batch --list-secret-keys "$key" >/dev/null 2>&1 || die "FND_REPO_KEY: GnuPG has no secret key $key"
    signers+=(--local-user "$key")
done

mkdir -p "$pool"
work=$(mktemp -d)
added=()
# What was added goes unless it gets signed.
trap 'rm -rf -- "$work" "${added[@]}"' EXIT

# All that lies in the pool gets signed. So it must be what was signed before: write access to the directory alone adds no package.
check_pool() {
    local text signer list sum name
    [[ -n $(find pool -type f) ]] || return 0
    text=$(gpg --batch --quiet --status-file "$work/status" --decrypt dists/stable/InRelease 2>/dev/null) || true
    signer=$(awk '$2 == "VALIDSIG" { print $NF; exit }' "$work/status")
    if [[ -z $signer ]] || ! gpg --batch --list-secret-keys "$signer" >/dev/null 2>&1; then
        die "$repo has packages, and no lists that a key of this GnuPG has signed: choose another FND_REPO, and name the packages as arguments"
    fi
    for list in dists/stable/main/binary-*/Packages; do
        sum=$(sha256sum "$list")
        grep -qE "^ ${sum%% *} +[0-9]+ ${list#dists/stable/}\$" <<<"$text" || die "$repo/$list is not the one that was signed"
        awk 'BEGIN { RS = ""; FS = "\n" }
            {
                for (i = 1; i <= NF; i++) {
                    if ($i ~ /^Filename: /) name = substr($i, 11)
                    if ($i ~ /^SHA256: /) sum = substr($i, 9)
                }
                print sum " " name
            }' "$list"
    done >"$work/signed"
    while read -r -d '' name; do
        sum=$(sha256sum "$name")
        grep -qxF "${sum%% *} $name" "$work/signed" || die "$repo/$name is not what was signed: remove it"
    done < <(find pool -type f -print0)
}
(cd "$repo" && check_pool)

# Machines get the keys as a package: its upgrade is how they learn a new one, while the old one still signs.
keyring() {
    local stage=$work/keyring newest version
    mkdir -p "$stage/usr/share/keyrings" "$stage/DEBIAN"
    gpg --batch --export --export-options export-minimal "${keys[@]}" >"$stage/usr/share/keyrings/fnd-archive-keyring.pgp"
    newest=$(find "$pool" -name 'fnd-archive-keyring_*.deb' | sort | tail -n 1)
    if [[ -n $newest ]]; then
        dpkg-deb -x "$newest" "$work/before"
        # An unchanged keyring is no upgrade.
        ! cmp -s "$work/before/usr/share/keyrings/fnd-archive-keyring.pgp" "$stage/usr/share/keyrings/fnd-archive-keyring.pgp" || return 0
    fi
    version=$(date -u +%Y%m%d.%H%M%S.%N)
    cat >"$stage/DEBIAN/control" <<CONTROL
Package: fnd-archive-keyring
Version: $version
Architecture: all
Section: admin
Priority: optional
Maintainer: fnd maintainers <maintainers@fnd.example>
Description: keys that sign the repository of fnd
 Upgrades of this package bring new keys before they are used.
CONTROL
    added+=("$pool/fnd-archive-keyring_${version}_all.deb")
    dpkg-deb --root-owner-group -b "$stage" "${added[-1]}" >&2
}

for deb in "${debs[@]}"; do
    # shellcheck disable=SC2016 # dpkg-deb expands them
    there=$pool/$(dpkg-deb --show --showformat='${Package}_${Version}_${Architecture}.deb' "$deb")
    # A version that machines may have stays what it is: apt compares versions, not bytes.
    if [[ -e $there ]]; then
        cmp -s "$deb" "$there" || die "$there is there with other content: raise the version, or remove it from the repository"
    else
        added+=("$there")
        install -m 0644 "$deb" "$there"
    fi
done
keyring

# The lists of before stand until the new ones are signed: an agent may want a password, or fail.
cd "$repo"
release=dists/stable.new
rm -rf "$release" dists/stable.old
architectures=$(find pool -name 'fnd_*.deb' | sed -E 's/.*_([a-z0-9]+)\.deb/\1/' | sort -u | tr '\n' ' ')
for architecture in $architectures; do
    place=$release/main/binary-$architecture
    mkdir -p "$place"
    # Packages for all architectures are in each list.
    apt-ftparchive --arch "$architecture" packages pool >"$place/Packages"
    gzip -9nkf "$place/Packages"
done
apt-ftparchive -o APT::FTPArchive::Release::Origin=fnd -o APT::FTPArchive::Release::Label=fnd \
    -o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \
    -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures="${architectures% }" \
    release "$release" >"$work/Release"
mv "$work/Release" "$release/Release"
gpg --batch --yes --quiet "${signers[@]}" --digest-algo SHA512 --clearsign --output "$release/InRelease" "$release/Release"
[[ ! -d dists/stable ]] || mv dists/stable dists/stable.old
mv "$release" dists/stable
added=()
rm -rf dists/stable.old
install -m 0644 "$work/keyring/usr/share/keyrings/fnd-archive-keyring.pgp" .

cat >fnd.sources <<SOURCES
Types: deb
URIs: $url
Suites: stable
Components: main
Signed-By: /usr/share/keyrings/fnd-archive-keyring.pgp
SOURCES
say "signed by ${keys[*]}; on a machine: fnd-archive-keyring.pgp to /usr/share/keyrings, fnd.sources to /etc/apt/sources.list.d"
printf '%s\n' "$repo"
