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

for tool in qemu-system-x86_64 qemu-img mke2fs; do
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
trap 'rm -rf -- "$stage"' EXIT
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
cp tests/vm/guest/agent.py "$stage/"
install -m 0755 "$(find_deno)" "$stage/deno"
rm -f "$FND_VM_PAYLOAD"
mke2fs -q -t ext4 -L payload -d "$stage" "$FND_VM_PAYLOAD" "$(($(du -sm "$stage" | cut -f 1) + 64))M" >&2

"$target/debug/vm" "$@"
