#!/usr/bin/env bash
echo "$(ulimit -n) $(umask)"
