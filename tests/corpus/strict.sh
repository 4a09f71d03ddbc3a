#!/usr/bin/env bash
set -euo pipefail
false | true
echo "not reached"
