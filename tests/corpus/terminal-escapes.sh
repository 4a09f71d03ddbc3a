#!/usr/bin/env bash
printf '\033]0;title\007\033[31mred\033[0m\n'
