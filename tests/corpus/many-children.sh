#!/usr/bin/env bash
for n in $(seq 20); do (sleep 0.02; exit "$n") & done
wait
echo reaped
