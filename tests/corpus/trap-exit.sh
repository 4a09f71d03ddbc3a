#!/usr/bin/env bash
trap 'exit 3' EXIT
exit 0
