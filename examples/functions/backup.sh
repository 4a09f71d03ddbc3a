#!/usr/bin/env bash
# Packs a directory and keeps the newest backups. A file that changes meanwhile is no error, an unreadable one is.
#
#     fndctl invoke backup -d '{"source": "/srv/app/data", "keep": 14}'
#
# /// fnd
# description = "Backup of a directory, with retention"
# on_load = false
# labels = { team = "ops" }
# args = ["--exclude=*.tmp"]
# [sandbox]
# read_only = ["/srv"]  # what may be backed up: the sandbox hides /srv, /home, /root and the like
# [limits]
# timeout = "2h"
# memory = "256M"
# cpu_weight = 10
# home = "20G"          # the archives are kept there: above it, new runs are refused
# [env]
# TAR_OPTIONS = "--one-file-system"
# [pool]
# max = 1
# ///
set -euo pipefail

input=$(cat)
source=$(jq -er '.source' <<<"$input")
keep=$(jq -r '.keep // 14' <<<"$input")
target=$STATE_DIRECTORY/backups
mkdir -p "$target"
name=$(basename "$source")
archive=$target/$name-$(date -u +%Y%m%dT%H%M%S.%N).tar.gz

# GNU tar exits with 1 where a file changed while it was read.
code=0
tar -czf "$archive.part" "$@" -C "$(dirname "$source")" "$name" || code=$?
if ((code > 1)); then
    rm -f "$archive.part"
    exit "$code"
fi
mv "$archive.part" "$archive"

mapfile -t old < <(find "$target" -name "$name-*.tar.gz" | sort -r | tail -n +"$((keep + 1))")
((${#old[@]} == 0)) || rm -- "${old[@]}"
jq -cn --arg archive "$archive" --argjson files "$(tar -tzf "$archive" | grep -vc '/$')" --argjson removed "${#old[@]}" \
    '{archive: $archive, files: $files, removed: $removed}'
