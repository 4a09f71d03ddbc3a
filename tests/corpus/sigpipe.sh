#!/usr/bin/env bash
yes | head -1
echo "${PIPESTATUS[0]}"
