#!/usr/bin/env bash
printf '\x00\xff\xfe\x01\x00'
