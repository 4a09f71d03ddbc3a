#!/usr/bin/env bash
if touch ./new 2>/dev/null; then
  echo "could write its own code" >&2
  exit 1
fi
echo refused
