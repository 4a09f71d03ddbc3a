#!/usr/bin/env bash
# Runs systemd-analyze verify over the units as they are installed. The programs they start need not be there: a temporary
# root holds stand-ins in their places. A single warning is a failure: systemd ignores a key it does not know.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

image=$(mktemp -d)
trap 'rm -rf -- "$image"' EXIT
units=$image/usr/lib/systemd/system
mkdir -p "$units" "$image/usr/sbin" "$image/usr/bin" "$image/usr/libexec/fnd" "$image/etc"
# The units every other one depends on by default, from this machine's systemd.
cp -r /lib/systemd/system/*.target "$units"
printf 'root:x:0:0::/root:/bin/sh\nfnd:x:900:900::/:/usr/sbin/nologin\n' >"$image/etc/passwd"
printf 'root:x:0:\nfnd:x:900:\n' >"$image/etc/group"
for program in usr/sbin/fnd usr/bin/fndctl usr/libexec/fnd/fnd-spawner usr/libexec/fnd/backup; do
    install -m 0755 /bin/true "$image/$program"
done
cp systemd/*.service systemd/*.socket systemd/*.timer "$units"

names=(fnd.socket fnd-http.socket fnd.service fnd-spawner.service fnd-backup.service fnd-backup.timer)
output=$(systemd-analyze verify --man=no --root="$image" "${names[@]}" 2>&1) || {
    printf '%s\n' "$output" >&2
    die "systemd-analyze verify failed"
}
# Only what concerns our own units: the machine's targets may want things the temporary root lacks.
if grep -E '(^|/)fnd[^ ]*\.(service|socket|timer)' <<<"$output" >&2; then
    die "systemd-analyze verify has warnings"
fi
# The unit of a user's own fnd: with --user there is no other root, so it names a stand-in itself.
sed -E 's#^(Exec[A-Za-z]+=)[^ ]+#\1/bin/true#' systemd/user/fnd.service >"$image/fnd.service"
output=$(XDG_RUNTIME_DIR=$image systemd-analyze verify --user --man=no "$image/fnd.service" 2>&1) || {
    printf '%s\n' "$output" >&2
    die "systemd-analyze verify --user failed"
}
if grep -E '(^|/)fnd[^ ]*\.service' <<<"$output" >&2; then
    die "systemd-analyze verify --user has warnings"
fi
say "${names[*]} and the user unit fnd.service are valid"
