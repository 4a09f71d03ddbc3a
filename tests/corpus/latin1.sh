#!/usr/bin/env bash
printf 'caf\xe9\n'
