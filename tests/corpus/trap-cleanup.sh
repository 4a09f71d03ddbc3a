#!/usr/bin/env bash
trap 'echo "code $?"' EXIT
false
exit 8
