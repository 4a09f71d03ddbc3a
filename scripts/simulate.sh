#!/usr/bin/env bash
# Runs simulated worlds of the whole daemon (docs/design/simulation.md). SEEDS=N of them (2000), from FIRST=N on; without FIRST,
# the commit chooses, so that each commit tries other ones and the same commit the same ones. SEED=N repeats one and prints what
# happens there, STEPS=N ends its faults after so many steps. CLUSTER=1: worlds of several machines. MUTANTS=1 expects that every
# fault of core/src/mutants.rs is found.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

cargo build --locked --profile simulate -p fnd --features simulate --bin fnd-simulate
if [[ -z ${FIRST:-} ]]; then
    FIRST=$((16#$(git rev-parse --short=12 HEAD 2>/dev/null || printf 1)))
    export FIRST
fi
exec "$target/simulate/fnd-simulate"
