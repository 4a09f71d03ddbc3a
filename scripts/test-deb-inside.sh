#!/bin/bash
# The part of test-deb.sh that runs in a fresh Debian, which is thrown away after it. The package is /fnd.deb.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
mknod -m 666 /dev/null c 1 3

fail() {
    printf 'test-deb: %s\n' "$*" >&2
    exit 1
}
quietly() {
    local output
    output=$("$@" 2>&1) || fail "$* failed: $output"
}
is() { # EXPECTED COMMAND...
    local expected=$1 found
    shift
    found=$("$@" 2>&1) || true
    [[ $found == "$expected" ]] || fail "$*: expected \"$expected\", found \"$found\""
}
# Recommended packages are other people's. A mirror may fail now and then.
apt_get() { quietly apt-get --quiet --yes --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 "$@"; }

first=$(apt-get --yes --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600 install /fnd.deb 2>&1) || fail "install: $first"
[[ $first == *'Save a function in /etc/fnd/functions'* ]] || fail "the installation does not say where functions go: $first"
version=$(dpkg-query -f '${Version}' -W fnd)
is "fndctl $version" fndctl --version
is "fnd $version" fnd --version
is "fnd-spawner $version" /usr/libexec/fnd/fnd-spawner --version
is "fnd-web $version" /usr/libexec/fnd/fnd-web --version
is "0 functions, 0 errors" fnd --check
is "0 functions, 0 errors" setpriv --reuid fnd --regid fnd --clear-groups fnd --check
is "/var/lib/fnd:/usr/sbin/nologin" sh -c 'getent passwd fnd | cut -d: -f6-'

# Every example is a function that is valid here.
found=$(fnd --check --functions /usr/share/doc/fnd/examples/functions 2>&1) || fail "examples: $found"
[[ $found =~ ^[1-9][0-9]*\ functions,\ 0\ errors$ ]] || fail "examples: $found"

owners='%U:%G %a %n'
while read -r line; do
    is "$line" stat -c "$owners" "${line##* }"
done <<'PLACES'
root:root 755 /etc/fnd
root:root 644 /etc/fnd/fnd.toml
root:root 755 /etc/fnd/functions
root:root 700 /etc/fnd/bindings
root:root 700 /etc/fnd/secrets
root:root 711 /var/lib/fnd
fnd:fnd 700 /var/lib/fnd/state
fnd:fnd 750 /var/lib/fnd/functions
root:root 700 /var/lib/fnd/spawner
root:root 755 /run/fnd
fnd:fnd 755 /run/fnd/status
fnd:fnd 700 /run/fnd/ledger
fnd:fnd 700 /run/fnd/marks
fnd:fnd 700 /run/fnd/spool
root:root 755 /usr/sbin/fnd
root:root 755 /usr/libexec/fnd/fnd-helper
root:root 755 /usr/libexec/fnd/fnd-spawner
root:root 755 /usr/libexec/fnd/fnd-web
root:root 644 /usr/lib/fnd/runtimes/bash/runtime.toml
root:root 644 /usr/lib/fnd/runtimes/share/js/serve.mjs
root:root 644 /usr/share/bash-completion/completions/fndctl
root:root 644 /usr/share/doc/fnd/html/index.html
root:root 644 /usr/share/doc/fnd/html/search-index.js
root:root 644 /usr/share/doc/fnd/html/pictures/status.svg
PLACES
is enabled systemctl is-enabled fnd.service
is enabled systemctl is-enabled fnd.socket
is disabled systemctl is-enabled fnd-http.socket
is static systemctl is-enabled fnd-spawner.service
is "" systemd-analyze verify --man=no fnd.socket fnd-http.socket fnd.service fnd-spawner.service

# Files of people and of fnd.
cat >/etc/fnd/functions/mine.sh <<<'echo hello'
cat >/var/lib/fnd/state/history <<<'runs'
mkdir -p /var/lib/fnd/home/mine
cat >/var/lib/fnd/home/mine/kept <<<'data'
chown 70000:70000 /var/lib/fnd/home/mine/kept
cat >>/etc/fnd/fnd.toml <<<'# mine'
quietly systemctl disable fnd.service

# An upgrade: to itself, which runs the same steps.
again=$(apt-get --yes --reinstall install /fnd.deb 2>&1) || fail "reinstall: $again"
[[ $again != *'Save a function'* ]] || fail "an upgrade speaks as a first installation: $again"
is disabled systemctl is-enabled fnd.service
is "# mine" tail -n 1 /etc/fnd/fnd.toml
is 70000 stat -c %u /var/lib/fnd/home/mine/kept

# An upgrade where fnd.toml has a mistake. Nothing may be restarted: fnd would not start, and the functions end with it.
# systemd does not run in here, so requests to it are written down instead.
mkdir -p /run/systemd/system /asks
for program in systemctl deb-systemd-invoke aa-enabled apparmor_parser; do
    cat >"/asks/$program" <<'PROGRAM'
#!/bin/sh
printf '%s\n' "$*" >>/asks/for
case $* in
    *is-active*) test -e /asks/active ;;
    *--replace*) test ! -e /asks/broken ;;
esac
PROGRAM
    chmod +x "/asks/$program"
done
upgrade() { # prints what it says and what it asks systemd for
    : >/asks/for
    PATH=/asks:$PATH dpkg --install /fnd.deb 2>&1 || fail "an upgrade ended with $?"
    cat /asks/for
}
found=$(upgrade)
[[ $found == *"restart fnd.service"* && $found != *"stop "* ]] || fail "an upgrade does not restart fnd alone: $found"
: >/asks/for
found=$(PATH=/asks:$PATH DPKG_MAINTSCRIPT_PACKAGE=fnd /var/lib/dpkg/info/fnd.postinst configure 0.1.0 2>&1) || fail "an upgrade from 0.1.0: $found"
found=$(</asks/for)
[[ $found == *"stop fnd.service fnd-spawner.service"*"restart fnd.service"* ]] || fail "an upgrade from 0.1.0 leaves its fnd-spawner: $found"
# The profile of AppArmor is there where the parser knows its rule, which this Debian's does not.
[[ ! -e /etc/apparmor.d/fnd ]] || fail "a profile that AppArmor 3 reports at each boot"
mkdir -p /etc/apparmor.d/abi
touch /etc/apparmor.d/abi/4.0
found=$(upgrade)
[[ $found == *"--replace /etc/apparmor.d/fnd"*"restart fnd.service"* ]] || fail "the profile is not loaded before fnd starts: $found"
is "root:root 644 /etc/apparmor.d/fnd" stat -c "$owners" /etc/apparmor.d/fnd
touch /asks/broken
found=$(upgrade)
[[ $found == *"restart fnd.service"* ]] || fail "a profile that the parser refuses fails the upgrade: $found"
rm /asks/broken
printf '[logs]\nkeep_fro = "1d"\n' >/etc/fnd/conf.d/mistake.toml
found=$(upgrade)
[[ $found == *keep_fro*"so fnd was not started"* && $found != *"restart fnd.service"* ]] || fail "a mistake, nothing runs: $found"
touch /asks/active
found=$(upgrade)
[[ $found == *keep_fro*"so fnd was not restarted"* && $found != *"restart fnd.service"* ]] || fail "a mistake, fnd runs: $found"
rm -r /etc/fnd/conf.d/mistake.toml /asks /run/systemd/system

apt_get remove fnd
[[ ! -e /etc/apparmor.d/fnd ]] || fail "remove left the profile of AppArmor"
rm -r /etc/apparmor.d/abi
[[ ! -e /usr/sbin/fnd ]] || fail "remove left /usr/sbin/fnd"
for path in /etc/fnd/functions/mine.sh /etc/fnd/fnd.toml /var/lib/fnd/state/history /var/lib/fnd/home/mine/kept; do
    [[ -e $path ]] || fail "remove deleted $path"
done

apt_get purge fnd
traces() { find / -xdev \( -path /proc -o -path /var/log -o -path /var/lib/apt -o -path /var/cache \) -prune -o -name '*fnd*' ! -path /fnd.deb -print | sort; }
is "/etc/fnd" traces
is "/etc/fnd/functions/mine.sh" find /etc/fnd -type f

# Nobody's files: nothing is left.
rm /etc/fnd/functions/mine.sh
apt_get install /fnd.deb
is enabled systemctl is-enabled fnd.service
apt_get purge fnd
is "" traces

# The commands of the page on operations, as they stand there: a backup of a machine that has a history, restored on one where the package
# has just been installed and has started fnd once. For systemd, which does not run in here, fnd is started and stopped.
sudo() { "$@"; }
systemctl() { # VERB UNIT...
    if [[ $1 == start ]]; then
        fnd --best-effort-limits >>/log 2>&1 &
        fnd=$!
        soon fndctl status
    else
        kill "$fnd"
        wait "$fnd" || fail "fnd ended with $?: $(cat /log)"
    fi
}
soon() { # COMMAND...
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1 # there is nothing to wait on
    done
    fail "$* does not succeed: $(cat /log)"
}
page() { awk -v section="## $1" -v like="$2" '/^## / { there = $0 == section } there && sub(/^\$ sudo /, "sudo ") && $0 ~ like' /operations.md; }
run_page() { # SECTION PATTERN: runs its commands that match
    local command commands
    mapfile -t commands <<<"$(page "$@")"
    ((${#commands[@]} > 1)) || fail "the page has only: ${commands[*]}"
    for command in "${commands[@]}"; do
        eval "$command" >>/log 2>&1 || fail "$command: $(cat /log)"
    done
}
has_run() { fndctl history mine -o json | grep -q '"succeeded"'; }
fresh() {
    apt_get install /fnd.deb
    systemctl start fnd
}
fresh
cat >/etc/fnd/functions/mine.sh <<'CODE'
echo hello >>"$STATE_DIRECTORY/kept"
CODE
soon has_run
before=$(fndctl history mine -o json)
run_page Backup 'fndctl backup '
systemctl stop fnd
apt_get purge fnd
rm -r /etc/fnd
fresh
is "" find /etc/fnd/functions /var/lib/fnd/home -type f
run_page Backup 'fnd.socket|fndctl restore'
soon fndctl show mine
is "$before" fndctl history mine -o json
is hello cat /var/lib/fnd/home/mine/kept
systemctl stop fnd
