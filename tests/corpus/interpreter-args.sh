#!/usr/bin/env bash
[[ $- == *e* ]] && printf "%s" "$CMD_ARGS"
