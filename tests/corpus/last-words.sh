#!/usr/bin/env bash
echo first >&2
echo "last words" >&2
echo output
exit 7
