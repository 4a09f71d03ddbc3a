#!/usr/bin/env bash
[[ $HOME == "$STATE_DIRECTORY" ]] || exit 1
echo kept >"$HOME/file"
cat ~/file
