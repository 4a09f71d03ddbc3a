#!/usr/bin/env bash
# Fuzzes every place where bytes of others are read, each for FUZZ_SECONDS (60): all targets of tests/fuzz, or those named.
# What is found along the way is kept in target/fuzz/corpus for the next time; a finding in target/fuzz/artifacts.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

seconds=${FUZZ_SECONDS:-60}
fuzz=$target/tools/bin/cargo-fuzz
out=$target/fuzz
if [[ ! -x $fuzz ]]; then
    # A debug build: it runs for a second, so building it fast is what counts.
    cargo install cargo-fuzz --locked --version 0.13.2 --debug --root "$target/tools"
fi

# Without a sanitizer, so that the pinned compiler does: what is fuzzed has no unsafe code. Overflow and debug assertions
# are checked.
cargo_fuzz() { CARGO_TARGET_DIR=$out "$fuzz" fuzz "$1" --fuzz-dir tests/fuzz "${@:2}"; }
built=(--sanitizer none --features daemon)

targets=("$@")
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(cargo_fuzz list)
    cargo_fuzz build "${built[@]}"
fi
failed=()
for name in "${targets[@]}"; do
    mkdir -p "$out/corpus/$name" "$out/artifacts/$name"
    # Where good input is in the repository already, it is not there a second time.
    seeds=()
    case $name in
        code) seeds+=(examples tests/corpus) ;;
        manifest | settings) seeds+=(config) ;;
        runtime) seeds+=(runtimes) ;;
        *) seeds+=("tests/fuzz/seeds/$name") ;;
    esac
    say "$name, $seconds s"
    # A second is long for 64 KiB; what takes ten hangs.
    if ! cargo_fuzz run "${built[@]}" "$name" "$out/corpus/$name" "${seeds[@]}" -- -max_total_time="$seconds" -max_len=65536 -timeout=10 \
        -artifact_prefix="$out/artifacts/$name/" -print_final_stats=1 >"$out/$name.log" 2>&1; then
        failed+=("$name")
        tail -40 "$out/$name.log" >&2
    fi
    sed -n 's/^stat::number_of_executed_units: */    executions: /p' "$out/$name.log" >&2
done
if ((${#failed[@]} > 0)); then
    die "found something: ${failed[*]}; the input is in $out/artifacts, the log in $out/NAME.log"
fi
say "nothing found"
