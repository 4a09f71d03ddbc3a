#!/usr/bin/env bash
# Tests the rpm that `make rpm` built (or that an argument names), as far as a Debian machine can: rpm installs it with its scripts below a
# root, which is a Debian with systemd, verifies each file, upgrades and removes it; its files are those of the Debian package, its units
# are valid. No distribution of rpm boots here: SELinux, presets and the resolver of dnf are not tested. As root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

command -v rpm >/dev/null || die "rpm is missing: apt-get install rpm"
[[ $(id -u) == 0 ]] || die "needs root, for chroot"
case $(uname -m) in
    x86_64) architecture=amd64 ;;
    *) architecture=arm64 ;;
esac
package=${1:-$(newest "$target"/rpm/fnd-*."$(uname -m)".rpm)}
[[ -f $package ]] || die "no package: run make rpm first"
version=$(rpm -qp --queryformat '%{VERSION}' "$package")
deb=${2:-$target/debian/fnd_${version}_$architecture.deb}
[[ -f $deb ]] || die "no Debian package to compare with: $deb"
fresh=$target/debian/bookworm.tar
[[ -f $fresh ]] || scripts/test-deb.sh --fresh

place=$(mktemp -d)
trap 'umount -R "$place/root/proc" 2>/dev/null || true; rm -rf --one-file-system -- "$place"' EXIT
in_root() { chroot "$place/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 "$@"; }
is() { # EXPECTED COMMAND...
    local expected=$1 found
    shift
    found=$("$@" 2>&1) || true
    [[ $found == "$expected" ]] || die "$*: expected \"$expected\", found \"$found\""
}
# rpm of Debian warns that dpkg has the machine's packages; this is not the machine.
root_rpm() { rpm --root "$place/root" --dbpath /var/lib/rpm --force-debian "$@"; }

say "the same files as in $(basename "$deb")"
dpkg-deb -x "$deb" "$place/deb"
mv "$place/deb/usr/share/zsh/vendor-completions" "$place/deb/usr/share/zsh/site-functions"
sums() { sort -k 2 | sed 's# \./# /#'; }
diff <(cd "$place/deb" && find . -type f -exec sha256sum {} + | sed 's/  / /' | sums) \
    <(rpm -qp --queryformat '[%{FILEDIGESTS} %{FILENAMES}\n]' "$package" | grep -v '^ ' | sums) >&2 || die "the files differ"
diff <(cd "$place/deb" && find . -type f -printf '%m %p\n' | sums) \
    <(rpm -qp --queryformat '[%{FILEMODES:octal} %{FILENAMES}\n]' "$package" | sed -n 's/^100//p' | sums) >&2 || die "the modes differ"
for path in $(rpm -qpl "$package"); do
    [[ $path == */fnd* || $path == */_fnd* || $path == */fnd/* ]] || die "the package has $path, which is not fnd's"
done

say "install, verify, upgrade, remove"
mkdir "$place/root"
tar --extract --file "$fresh" --directory "$place/root" --exclude './dev/*'
mknod -m 666 "$place/root/dev/null" c 1 3
mount -t proc proc "$place/root/proc"
# Its requirements are those of a distribution with rpm; the libraries themselves are found below, by starting the programs.
said=$(root_rpm --install --nodeps "$package" 2>&1) || die "rpm --install: $said"
[[ $said == *'Save a function in /etc/fnd/functions'* ]] || die "the installation does not say where functions go: $said"
is "" root_rpm --verify --nodeps fnd
is "fnd $version" in_root fnd --version
is "fndctl $version" in_root fndctl --version
is "fnd-spawner $version" in_root /usr/libexec/fnd/fnd-spawner --version
is "0 functions, 0 errors" in_root setpriv --reuid fnd --regid fnd --clear-groups fnd --check
is "" in_root systemd-analyze verify --man=no fnd.socket fnd-http.socket fnd.service fnd-spawner.service
is "/var/lib/fnd:/usr/sbin/nologin" in_root sh -c 'getent passwd fnd | cut -d: -f6-'
is "fnd:fnd 700" in_root stat -c '%U:%G %a' /var/lib/fnd/state

echo '# mine' >>"$place/root/etc/fnd/fnd.toml"
echo 'echo hello' >"$place/root/etc/fnd/functions/mine.sh"
said=$(root_rpm --upgrade --force --nodeps "$package" 2>&1) || die "rpm --upgrade: $said"
[[ $said != *'Save a function'* ]] || die "an upgrade speaks as a first installation: $said"
is "# mine" tail -n 1 "$place/root/etc/fnd/fnd.toml"
said=$(root_rpm --erase fnd 2>&1) || die "rpm --erase: $said"
[[ ! -e $place/root/usr/sbin/fnd && ! -e $place/root/usr/lib/fnd ]] || die "removal left programs"
is "echo hello" cat "$place/root/etc/fnd/functions/mine.sh"
is "# mine" tail -n 1 "$place/root/etc/fnd/fnd.toml.rpmsave"
say "$(basename "$package") is fine; not tried: a boot, SELinux, dnf"
