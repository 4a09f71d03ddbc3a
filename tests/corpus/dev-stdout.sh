#!/usr/bin/env bash
echo "by name" >/dev/stdout
