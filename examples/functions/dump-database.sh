#!/usr/bin/env bash
# Dumps a database and keeps the newest few dumps in the function's own state directory. A database that is locked or not
# reachable is transient: fnd tries again with growing gaps.
#
#     fndctl invoke dump-database -d '{"sqlite": "/srv/app/app.db", "keep": 7}'
#     fndctl invoke dump-database -d '{"postgres": "postgresql:///shop", "keep": 7}'
#
# /// fnd
# description = "Dumps a database"
# on_load = false
# labels = { team = "data" }
# [sandbox]
# read_write = ["/srv", "/run/postgresql"]  # the databases, which the sandbox hides; SQLite writes a journal beside the file
# [limits]
# timeout = "30m"
# deadline = "2h"
# memory = "512M"
# [retry]
# retries = 5
# interval = "10s"
# max_interval = "5m"
# on = ["transient", "timeout"]
# [pool]
# max = 1
# [queue]
# overlap = "skip"
# ///
set -euo pipefail

TRANSIENT=75
input=$(cat)
keep=$(jq -r '.keep // 7' <<<"$input")
dumps=$STATE_DIRECTORY/dumps
mkdir -p "$dumps"
dump=$dumps/$(date -u +%Y%m%dT%H%M%S.%N).sql.gz

if database=$(jq -er '.sqlite' <<<"$input"); then
    [[ -r $database ]] || { echo "cannot read $database" >&2; exit 65; }
    dump_command=(sqlite3 -readonly "$database" ".timeout 1000" .dump)
else
    database=$(jq -er '.postgres' <<<"$input")
    dump_command=(pg_dump --no-password "$database")
fi

# Only one run at a time, so a retry overwrites what the attempt before left. TMPDIR is too small for a database.
text=$CACHE_DIRECTORY/dump.sql
trap 'rm -f "$text"' EXIT
if ! "${dump_command[@]}" >"$text" 2>"$TMPDIR/errors"; then
    cat "$TMPDIR/errors" >&2
    exit "$TRANSIENT"
fi
# sqlite3 writes what stopped it into the dump and still exits with 0.
if [[ -s $TMPDIR/errors ]] || grep -q '^/\*\*\*\* ERROR' "$text"; then
    echo "the dump is incomplete: $(cat "$TMPDIR/errors")" >&2
    exit "$TRANSIENT"
fi
gzip -c "$text" >"$dump.part"
mv "$dump.part" "$dump"

mapfile -t old < <(find "$dumps" -name '*.sql.gz' | sort -r | tail -n +"$((keep + 1))")
((${#old[@]} == 0)) || rm -- "${old[@]}"
jq -cn --arg file "$dump" --argjson bytes "$(stat -c %s "$dump")" --argjson removed "${#old[@]}" \
    '{file: $file, bytes: $bytes, removed: $removed}'
