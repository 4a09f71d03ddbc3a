#!/usr/bin/env bash
set -u
echo "$THERE_IS_NO_SUCH_VARIABLE"
