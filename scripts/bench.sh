#!/usr/bin/env bash
# Builds fnd and measures it: `make bench`. Every row is also appended to target/bench.jsonl, with the commit, so that figures of
# different commits are at hand (comparable only where the machine is).
#
# With COMPARE=COMMIT it measures that commit too, in turns with this tree in one run (TURNS, 3 unless set), and prints what
# changed. The other commit is measured with the benchmark of this tree, so that both do the same.
#
#     make bench PARTS="handlers pinned" COMPARE=HEAD~1
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

"$root/scripts/bench-peers.sh"
# Only this set-up installs a server of NATS. Without one, the part says so in its row.
[[ " $* " != *" nats "* && " $* " != *" lambda "* ]] || "$root/scripts/setup.sh" --ci

build() { # ROOT TARGET
    local packages=(-p fnd -p fnd-spawner -p fndctl -p fnd-tests)
    # Older commits have no programs of these names.
    [[ ! -d $1/helpers ]] || packages+=(-p fnd-helper)
    [[ ! -d $1/web ]] || packages+=(-p fnd-web)
    (cd "$1" && CARGO_TARGET_DIR=$2 cargo build --release --locked "${packages[@]}" --bins) >&2
}
measure() { # ROOT TARGET HISTORY COMMIT PARTS...
    local from=$1 built=$2 history=$3 commit=$4
    shift 4
    # Interpreters and peers are those of this tree.
    FND_DENO=$(find_deno) FND_BENCH_PEERS=$target/bench FND_BENCH_RECORD=$history FND_BENCH_COMMIT=$commit \
        env -C "$from" "$built/release/bench" "$@"
}

commit=$(git describe --always --dirty --abbrev=12)
build "$root" "$target"
if [[ -z ${COMPARE:-} ]]; then
    measure "$root" "$target" "$target/bench.jsonl" "$commit" "$@"
    exit
fi

# The checkout is kept, so that the next comparison with the same commit builds nothing.
before=$(git rev-parse --verify --quiet "$COMPARE^{commit}") || die "there is no commit \`$COMPARE\`"
checkout=$target/compare/$before
if [[ ! -e $checkout ]]; then
    mkdir -p "$checkout"
    # Not with the modes of the archive: others could write to the files, and fnd would refuse the runtimes.
    git archive "$before" | tar -x --no-same-permissions -C "$checkout"
fi
rm -rf "$checkout/tests/bench"
cp -r tests/bench "$checkout/tests/bench"
if ! build "$checkout" "$checkout/target"; then
    # Types that the benchmark names may lie elsewhere in the other commit.
    say "the benchmark of this tree does not build with $COMPARE: that commit is measured with its own, and the rows of both are compared"
    rm -rf "$checkout/tests/bench"
    git archive "$before" tests/bench | tar -x --no-same-permissions -C "$checkout"
    build "$checkout" "$checkout/target" || die "the benchmark of $COMPARE does not build either: compare with a newer commit"
fi
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for ((turn = 1; turn <= ${TURNS:-3}; turn++)); do
    say "turn $turn of ${TURNS:-3}"
    measure "$checkout" "$checkout/target" "$runs/before" "${before:0:12}" "$@" >&2
    measure "$root" "$target" "$runs/after" "$commit" "$@" >&2
done
cat "$runs/before" "$runs/after" >>"$target/bench.jsonl"
"$target/release/bench" --compare "$runs/before" "$runs/after"
