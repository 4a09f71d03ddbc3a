#!/usr/bin/env bash
head -c 3000000 /dev/zero | tr '\0' x
echo fine >"$FND_RESULT"
