#!/usr/bin/env bash
# Reads one line of many and ends: the writer must not mind.
read -r line
echo "${#line}"
