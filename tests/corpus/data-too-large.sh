#!/usr/bin/env bash
# Above 64 KiB the payload comes on standard input only.
[[ -z ${DATA+x} ]] && wc -c
