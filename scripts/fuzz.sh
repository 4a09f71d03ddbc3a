#!/usr/bin/env bash
# Fuzzes all targets of tests/fuzz, or the named ones, for FUZZ_SECONDS (60) each, as many at a time as there are CPUs. Each
# target is code that reads bytes from outside. New inputs are kept in target/fuzz/corpus for the next time, findings in
# target/fuzz/artifacts. `--build` only builds. FUZZ_SEED=N repeats the same choices (0: new ones each time).
# FUZZ_PROFILE=release takes longer to build and tries more inputs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

seconds=${FUZZ_SECONDS:-60}
profile=${FUZZ_PROFILE:-dev}
out=$target/fuzz

# The options that cargo-fuzz passes to the compiler with `--sanitizer none`. Without that tool only our own crates are
# built for the fuzzer, and all others are those of the tests. The pinned compiler is enough: the fuzzed code has no
# unsafe code, so it needs no sanitizer.
coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table --cfg=fuzzing)
[[ $(uname -m) != x86_64 ]] || coverage+=(-Cllvm-args=-sanitizer-coverage-trace-compares)
mkdir -p "$out"
# Cargo starts the compiler of the workspace's own crates by it, and builds them again where its name changes.
wrapper=$out/rustc-$(cksum <<<"${coverage[*]}" | cut -d ' ' -f 1)
# Not build scripts: they are linked without the fuzzer.
printf '#!/bin/sh\ncase " $* " in *" --crate-name build_script_"*) exec "$@" ;; esac\nexec "$@" %s\n' "${coverage[*]}" >"$wrapper"
chmod 0755 "$wrapper"
RUSTC_WORKSPACE_WRAPPER=$wrapper cargo build --locked --profile "$profile" -p fnd-fuzz --features targets --bins
[[ ${1:-} != --build ]] || exit 0
built=$target/$([[ $profile == dev ]] && printf debug || printf '%s' "$profile")

# Where good input is in the repository already, it is not there a second time.
seeds() { # NAME
    case $1 in
        code) printf '%s\n' examples tests/corpus ;;
        foreign) printf '%s\n' tests/conformance/foreign ;;
        manifest | settings) printf '%s\n' config ;;
        runtime) printf '%s\n' runtimes ;;
        *) printf '%s\n' "tests/fuzz/seeds/$1" ;;
    esac
}

fuzz() { # NAME
    local name=$1 found
    mapfile -t found < <(seeds "$name")
    mkdir -p "$out/corpus/$name" "$out/artifacts/$name"
    # A second is long for 64 KiB; a target that takes ten hangs.
    "$built/fuzz-${name//_/-}" "$out/corpus/$name" "${found[@]}" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -max_len=65536 -timeout=10 \
        -artifact_prefix="$out/artifacts/$name/" -print_final_stats=1 >"$out/$name.log" 2>&1
}

targets=("$@")
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(cd tests/fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')
fi
jobs=$(nproc)
say "${#targets[@]} targets, $seconds s each, $jobs at a time"
declare -A running=()
failed=()
finish() { # waits for one
    local pid code=0 name
    wait -n -p pid "${!running[@]}" || code=$?
    name=${running[$pid]}
    unset "running[$pid]"
    if ((code == 0)); then
        say "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name.log") executions"
    else
        failed+=("$name")
        tail -40 "$out/$name.log" >&2
    fi
}
for name in "${targets[@]}"; do
    ((${#running[@]} < jobs)) || finish
    fuzz "$name" &
    running[$!]=$name
done
while ((${#running[@]} > 0)); do finish; done
if ((${#failed[@]} > 0)); then
    die "findings in ${failed[*]}: the input is in $out/artifacts, the log in $out/NAME.log"
fi
say "no findings"
