#!/bin/bash
# The part of test-deb.sh that runs in a Debian with its own ansible, the oldest that the role needs: the role of /ansible installs the
# package /fnd.deb, and a second run changes nothing; then the same from a repository. The Debian is thrown away after it.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mknod -m 666 /dev/null c 1 3
# Ansible's locks.
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm

fail() {
    printf 'test-deb: %s\n' "$*" >&2
    exit 1
}
cat >/ansible/install.yml <<'PLAY'
- hosts: all
  gather_facts: false
  roles: [fnd]
PLAY
variables=fnd_deb=/fnd.deb
play() { # EXPECTED OPTIONS...: expects that so many tasks change something
    local expected=$1 output
    shift
    output=$(ansible-playbook --inventory localhost, --connection local --extra-vars "$variables" "$@" /ansible/install.yml 2>&1) ||
        fail "ansible $*: $output"
    [[ $output == *" changed=$expected "* ]] || fail "ansible $*: not changed=$expected: $output"
}
play 1 --check
[[ ! -e /usr/bin/fndctl ]] || fail "check mode installed the package"
play 2
play 0
play 0 --check
fndctl --version >/dev/null || fail "the package is not installed"

# A repository that the run before has written, and that apt has not read: that run was interrupted, or had no network.
dpkg --purge fnd >/dev/null 2>&1 || fail "the package cannot be purged"
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /usr/local/src/fnd.deb
mkdir /repository
mv /fnd.deb /repository/
{
    dpkg-deb -f /repository/fnd.deb | sed '/^$/d' # the rest belongs to the same paragraph
    printf 'Filename: ./fnd.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s /repository/fnd.deb)" "$(sha256sum </repository/fnd.deb | cut -d ' ' -f 1)"
} >/repository/Packages
printf 'Types: deb\nURIs: file:/repository\nSuites: ./\nTrusted: yes\n' >/etc/apt/sources.list.d/fnd.sources
printf '{"fnd_repository": "Types: deb\\nURIs: file:/repository\\nSuites: ./\\nTrusted: yes\\n"}\n' >/ansible/variables.json
variables=@/ansible/variables.json
play 2
play 0
fndctl --version >/dev/null || fail "the package of the repository is not installed"
