#!/usr/bin/env bash
who=world
cat <<TEXT
hello $who
TEXT
cat <<-'RAW'
	not $expanded
	RAW
