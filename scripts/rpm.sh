#!/usr/bin/env bash
# Turns the Debian package (an argument, or the newest in target/debian, of ARCH=arm64 for example) into an rpm, so that the two cannot
# differ in their files, and prints where it is. Only completions of zsh have another place. What the programs need of glibc becomes a
# requirement, and more than the Debian package allows is an error.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

# The glibc of Debian 12, where the programs are built. RHEL 9 has 2.34, RHEL 10 has 2.39.
most_glibc=2.36

deb=${1:-$(newest "$target"/debian/fnd_*_"${ARCH:-$(dpkg --print-architecture)}".deb)}
[[ -f $deb ]] || die "no package: run make deb first"
command -v readelf >/dev/null || die "readelf is missing: apt-get install binutils"
nfpm=$target/tools/nfpm/bin/nfpm
[[ -x $nfpm ]] || scripts/setup.sh --rpm

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
tree=$work/tree
dpkg-deb -x "$deb" "$tree"
dpkg-deb -e "$deb" "$work/control"
mv "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/zsh/site-functions"
mapfile -t programs < <(find "$tree/usr/sbin" "$tree/usr/bin" "$tree/usr/libexec" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print)

# Prints the versions of symbols that the programs need, as rpm writes them: libc.so.6(GLIBC_2.34)(64bit).
needed() {
    LC_ALL=C readelf --wide --version-info "${programs[@]}" | awk '
        /^Version/ { needs = /^Version needs/ }
        needs && match($0, /File: [^ ]+/) { file = substr($0, RSTART + 6, RLENGTH - 6) }
        needs && match($0, /Name: [^ ]+/) { print file "(" substr($0, RSTART + 6, RLENGTH - 6) ")(64bit)" }' | sort -u
}
mapfile -t libraries < <(needed)
((${#libraries[@]})) || die "readelf finds nothing that the programs need"
# The short form of relocations has a name in place of a version: glibc knows it since 2.36.
glibc=$(printf '%s\n' "${libraries[@]}" | sed -nE 's/.*\(GLIBC_([0-9.]+)\).*/\1/p; s/.*\(GLIBC_ABI_DT_RELR\).*/2.36/p' | sort -V | tail -n 1)
[[ $(printf '%s\n' "$glibc" "$most_glibc" | sort -V | tail -n 1) == "$most_glibc" ]] || die "the programs need glibc $glibc, more than $most_glibc"
say "the programs need glibc $glibc"

# Files one by one, and the directories that are fnd's own: /usr and its like belong to the distribution.
contents() {
    local path
    while read -r path; do
        printf '%s\t' "/$path"
        if [[ -d $tree/$path ]]; then
            printf 'dir'
        elif grep -qFx "/$path" "$work/control/conffiles"; then
            printf 'config|noreplace'
        fi
        printf '\n'
    done < <(cd "$tree" && find etc/fnd usr -path 'etc/fnd*' -print -o -path '*/fnd' -type d -print -o -path '*/fnd/*' -type d -print -o -type f -print | sort)
}
version=$(dpkg-deb -f "$deb" Version)
case $(dpkg-deb -f "$deb" Architecture) in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    *) die "$deb is for another architecture than amd64 or arm64" ;;
esac
description=$(dpkg-deb -f "$deb" Description)
# Packages for tests have large programs.
compression=zstd
[[ ${FND_PROFILE:-} != dev ]] || compression=zstd:1
# JSON is YAML, too.
jq --null-input --rawfile contents <(contents) --arg tree "$tree" --arg version "$version" --arg machine "$machine" \
    --arg summary "${description%%$'\n'*}" --arg description "$(sed '1d; s/^ \.$//; s/^ //' <<<"$description")" \
    --arg maintainer "$(dpkg-deb -f "$deb" Maintainer)" --arg mtime "$(date -u -d "@$(stat -c %Y "$tree/usr/sbin/fnd")" +%Y-%m-%dT%H:%M:%SZ)" \
    --arg compression "$compression" --arg scripts "$root/packaging/rpm" '{
        name: "fnd", arch: $machine, platform: "linux", version: $version, version_schema: "none", release: "1", mtime: $mtime,
        maintainer: $maintainer, license: "Apache-2.0", section: "admin", description: $description,
        rpm: {summary: $summary, compression: $compression, buildhost: "localhost"},
        depends: (["systemd >= 252", "/usr/bin/systemd-sysusers"] + $ARGS.positional),
        recommends: ["curl", "git-core", "jq", "python3-pyyaml", "python3-requests"],
        scripts: {postinstall: "\($scripts)/post", preremove: "\($scripts)/preun", postremove: "\($scripts)/postun"},
        contents: ($contents | split("\n") | map(select(length > 0) | split("\t")
            | {dst: .[0]} + (if .[1] == "dir" then {type: "dir", file_info: {mode: 493}} else {src: "\($tree)\(.[0])"} + (if .[1] == "" then {} else {type: .[1]} end) end)))
    }' --args "${libraries[@]}" >"$work/nfpm.yaml"
mkdir -p "$target/rpm"
rpm=$target/rpm/fnd-$version-1.$machine.rpm
"$nfpm" package --config "$work/nfpm.yaml" --packager rpm --target "$rpm" >&2
printf '%s\n' "$rpm"
