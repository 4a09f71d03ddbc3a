#!/usr/bin/env bash
# Builds the package of this commit twice, in clones whose places, masks of modes, zones and languages differ, and compares the bytes; names
# the files that differ. FND_PROFILE=release does it with the package that people get (twice as long as `make deb`); without, programs are
# optimized as little as in `make simulate`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

export FND_PROFILE=${FND_PROFILE:-simulate}
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
scripts/deb.sh --tool

build() { # NAME UMASK ZONE LANGUAGE
    local clone=$place/$1
    umask "$2"
    git clone --quiet --no-local "$root" "$clone"
    mkdir "$clone/target"
    ln -s "$target/tools" "$clone/target/tools"
    env --unset=CARGO_TARGET_DIR --unset=FND_WHOLE_WORKSPACE TZ="$3" LC_ALL="$4" "$clone/scripts/deb.sh" >/dev/null
    mkdir "$place/packages-$1"
    mv "$clone"/target/debian/*.*deb "$place/packages-$1/"
    # Both clones would be 10 GB.
    rm -rf -- "$clone"
}
(build one 022 UTC C.UTF-8)
(build another-place 077 Pacific/Kiritimati C)

different=0
for first in "$place"/packages-one/*; do
    second=$place/packages-another-place/$(basename "$first")
    [[ -f $second ]] || die "the second build has no $(basename "$first")"
    ! cmp -s "$first" "$second" || continue
    different=1
    say "$(basename "$first") differs:"
    dpkg-deb -R "$first" "$place/first"
    dpkg-deb -R "$second" "$place/second"
    diff --recursive --brief "$place/first" "$place/second" >&2 || true
    diff <(dpkg-deb -c "$first") <(dpkg-deb -c "$second") >&2 || true
    rm -r "$place/first" "$place/second"
done
((different == 0)) || die "two builds of one commit are not the same bytes"

# A path of the builder would differ on another machine.
dpkg-deb -x "$place"/packages-one/fnd_*.deb "$place/content"
for path in "$place" "${CARGO_HOME:-$HOME/.cargo}"; do
    ! grep --recursive --files-with-matches --fixed-strings "$path/" "$place/content" >&2 || die "these files name $path"
done
say "two builds of $(git rev-parse --short HEAD) are the same bytes: $(cd "$place/packages-one" && sha256sum -- *deb | tr '\n' ' ')"
