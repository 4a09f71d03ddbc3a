#!/usr/bin/env bash
echo "$GREETING"
