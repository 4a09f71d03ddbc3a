#!/usr/bin/env bash
echo one
if true; then
  echo two
fi
exit 0
