#!/usr/bin/env bash
# Runs, as an ordinary user that is made for it, the tests that start programs: with the build that is there, since that user needs no
# toolchain. `make test` of an ordinary user skips the tests that need root, and shows how fnd behaves without it. Tests that do
# not depend on the user are left out: shims of languages, examples and messages in all of them, buffers, NATS, the browser.
# Arguments are another filter of the runner.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"
[[ $(id -u) == 0 ]] || die "only root can make a user; without root, run \`make test\`"

user=fnd-ci-$$
useradd --create-home --shell /bin/bash "$user"
trap 'userdel --remove "$user" 2>/dev/null' EXIT
work=$target/as-user
rm -rf -- "$work"
mkdir -p "$work"
cargo metadata --format-version 1 --locked >"$work/cargo.json"
cargo nextest list --workspace --locked --list-type binaries-only --message-format json >"$work/binaries.json"
# The report of the run is written below target/nextest.
install -d -o "$user" "$work" "$target/nextest" "$target/nextest/default"
chown -R "$user" "$work" "$target/nextest"
chmod 1777 "$target/tmp" # some tests keep files there

cp -L "$(command -v cargo-nextest)" "$work/"

(($# > 0)) || set -- -E 'package(fnd) + package(fnd-helper) + package(fnd-spawner) + package(fnd-client) + package(fnd-web) + package(fndctl)
    + (package(fnd-tests) & binary(it) - test(/^(buffers|examples|messages|nats|page|storm)::/))'
# insta would ask cargo where the workspace is.
setpriv --reuid "$user" --regid "$user" --init-groups --reset-env \
    env FND_BUILT="$work" FND_REQUIRE="${FND_REQUIRE:-}" INSTA_UPDATE=no INSTA_WORKSPACE_ROOT="$root" \
    NEXTEST_RETRIES="${NEXTEST_RETRIES:-0}" scripts/test.sh "$@"
