#!/usr/bin/env bash
# Runs simulated worlds of the whole daemon (docs/design/simulation.md). SEEDS=N of them (2000), from FIRST=N on; without FIRST,
# the commit chooses, so that each commit tries other ones and the same commit the same ones. SEED=N repeats one and prints what
# happens there, STEPS=N ends its faults after so many steps. MUTANTS=1 expects that every fault of core/src/mutants.rs is found.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

# The profile and the programs of the package that `.ci/run` tests, so that the crates of others are compiled once for both. Only
# our own crates get assertions.
checks=()
for check in debug-assertions overflow-checks; do
    checks+=(--config "profile.package-test.$check=true" --config "profile.package-test.package.\"*\".$check=false")
done
cargo build --locked --profile package-test "${checks[@]}" -p fnd -p fnd-helper -p fnd-spawner -p fndctl \
    --features fnd/simulate --bin fnd-simulate
if [[ -z ${FIRST:-} ]]; then
    FIRST=$((16#$(git rev-parse --short=12 HEAD 2>/dev/null || printf 1)))
    export FIRST
fi
exec "$target/package-test/fnd-simulate"
