#!/usr/bin/env bash
echo "on the way out" >/dev/stderr
exit 4
