#!/usr/bin/env bash
# Checks every shell script of the repository with shellcheck, the example functions included. The scripts in
# tests/corpus are awkward on purpose and are left out.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

mapfile -t scripts < <(
    printf '%s\n' scripts/*.sh .ci/run packaging/backup packaging/scripts/*
    find examples -name '*.sh'
    # An executable without a suffix is a shell script if its first line says so.
    find examples -type f -perm -u+x ! -name '*.*' -exec grep -lE -m1 '^#!.*\b(ba)?sh\b' {} +
)
shellcheck --external-sources --source-path=SCRIPTDIR/.. "${scripts[@]}"
# rpm starts them with a shell, so they have no line that names it.
shellcheck --shell=sh packaging/rpm/*
