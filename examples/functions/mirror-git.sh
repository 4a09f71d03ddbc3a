#!/usr/bin/env bash
# Keeps a bare mirror of a git repository.
#
#     fndctl invoke mirror-git -d '{"url": "https://git.example.com/team/app.git"}'
#
# /// fnd
# description = "Mirrors a git repository"
# on_load = false
# labels = { team = "dev" }
# [limits]
# timeout = "20m"
# memory = "512M"
# pids = 128
# [env]
# GIT_TERMINAL_PROMPT = "0"
# [retry]
# retries = 3
# interval = "30s"
# [pool]
# max = 1
# ///
set -euo pipefail

url=$(jq -er '.url')
mirror=$STATE_DIRECTORY/$(basename "$url" .git).git
if [[ -d $mirror ]]; then
    git -C "$mirror" remote set-url origin "$url"
    git -C "$mirror" remote update --prune >&2
else
    # Cloned beside it and renamed, so that a clone that was cut off is not taken for a mirror.
    rm -rf "$mirror.part"
    git clone --quiet --mirror "$url" "$mirror.part" >&2
    mv "$mirror.part" "$mirror"
fi
git -C "$mirror" for-each-ref --format='%(refname) %(objectname)' |
    jq -Rn '{refs: ([inputs | split(" ") | {(.[0]): .[1]}] | add // {})}'
