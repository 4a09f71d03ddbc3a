#!/usr/bin/env bash
echo "try later" >&2
exit 75
