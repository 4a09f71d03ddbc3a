#!/usr/bin/env bash
if [[ -e $TMPDIR/seen ]]; then
  echo "seen in attempt $FND_ATTEMPT"
else
  touch "$TMPDIR/seen"
  exit 75
fi
