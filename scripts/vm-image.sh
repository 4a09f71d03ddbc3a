#!/usr/bin/env bash
# Builds the disk image that `make test-vm` boots: Debian with systemd as PID 1, without network and without fnd. Prints the
# image's directory: `vmlinuz`, `initrd`, `root.ext4`. Built once; its name holds a hash of this recipe, so a changed recipe
# is a new image. `VM=debian13` makes it of Debian 13.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case ${VM:-debian12} in
    debian12) suite=bookworm ;;
    debian13) suite=trixie ;;
    *) die "VM=$VM is not known: debian12, debian13" ;;
esac

hash=$(sha256sum "$0" | cut -c 1-12)
image=$target/vm/${VM:-debian12}-$hash
if [[ -e $image/root.ext4 ]]; then
    printf '%s\n' "$image"
    exit
fi
[[ $(id -u) == 0 ]] || die "root is needed to make the image of a root file system"
for tool in mmdebstrap mke2fs; do
    command -v "$tool" >/dev/null || die "no $tool: scripts/setup.sh --ci brings it"
done

# Packages that fnd's package depends on or recommends, and programs that scenarios use. The test brings deno itself.
packages=(systemd-sysv dbus udev kmod linux-image-cloud-amd64 initramfs-tools zstd
    bash python3 python3-pip nodejs jq curl sqlite3 procps iproute2 util-linux ca-certificates libnss-systemd openssh-client sudo acl wrk)

# Debian 13 has the AppArmor that knows the profile of the package. Its own profiles are not loaded: emulated CPUs would compile them.
[[ $suite != trixie ]] || packages+=(apparmor)

say "building an image of Debian ($suite); this takes a few minutes, once"
started=$SECONDS
mkdir -p "$image"
work=$(mktemp -d "$target/vm/work.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
root_fs=$work/root

configure() {
    local to=$1
    printf 'fnd-vm\n' >"$to/etc/hostname"
    printf '127.0.0.1 localhost fnd-vm\n' >"$to/etc/hosts"
    # The second disk holds the package under test, and the program the test talks to.
    cat >"$to/etc/fstab" <<'FSTAB'
LABEL=root    /        ext4 defaults    0 1
LABEL=payload /payload ext4 ro,nofail   0 0
FSTAB
    mkdir -p "$to/payload" "$to/var/log/journal"
    cat >"$to/etc/systemd/system/fnd-vm-agent.service" <<'UNIT'
[Unit]
Description=Runs what the test asks for
RequiresMountsFor=/payload
DefaultDependencies=no
After=sysinit.target dbus.socket
Conflicts=shutdown.target
Before=shutdown.target

[Service]
ExecStart=/usr/bin/python3 /payload/agent.py
Restart=always
RestartSec=1s
OOMScoreAdjust=-1000
CPUWeight=10000

[Install]
WantedBy=multi-user.target
UNIT
    chroot "$to" systemctl --quiet enable fnd-vm-agent.service
    # Nothing may happen on its own while a scenario runs, and nothing is started that none needs: CPUs are emulated.
    chroot "$to" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
        e2scrub_reap.service fstrim.timer systemd-tmpfiles-clean.timer systemd-timesyncd.service systemd-pstore.service \
        getty@tty1.service serial-getty@ttyS0.service systemd-logind.service systemd-binfmt.service \
        modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service \
        modprobe@fuse.service modprobe@loop.service dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount \
        sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
    [[ $suite != trixie ]] || chroot "$to" systemctl --quiet mask apparmor.service
    chroot "$to" useradd --create-home alice
    chroot "$to" useradd --create-home bob
}

# The initrd of a machine whose disks are virtio: small, since emulated CPUs unpack it.
# shellcheck disable=SC2016 # mmdebstrap's shell expands $1
bootstrap() {
    rm -rf --one-file-system -- "$root_fs" # of the try before
    mmdebstrap --quiet --variant=minbase --mode=root --format=directory --include="${packages[*]}" \
        --aptopt='Apt::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d" && printf "MODULES=list\nCOMPRESS=zstd\nRESUME=none\nFSTYPE=ext4\n" >"$1/etc/initramfs-tools/conf.d/vm"' \
        --essential-hook='printf "virtio_pci\nvirtio_blk\nvirtio_console\next4\n" >"$1/etc/initramfs-tools/modules"' \
        "$suite" "$root_fs"
}
three_times bootstrap >&2
configure "$root_fs"

cp -L "$root_fs"/boot/vmlinuz-* "$work/vmlinuz"
cp -L "$root_fs"/boot/initrd.img-* "$work/initrd"
# Room for what scenarios write; a hole in the file until then.
mke2fs -q -t ext4 -L root -d "$root_fs" "$work/root.ext4" 4G >&2
mv "$work/vmlinuz" "$work/initrd" "$image/"
mv "$work/root.ext4" "$image/root.ext4" # last: it says that all is there
say "built in $((SECONDS - started)) s: $image"
printf '%s\n' "$image"
