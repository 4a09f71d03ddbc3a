#!/usr/bin/env bash
echo "wrong input" >&2
exit 65
