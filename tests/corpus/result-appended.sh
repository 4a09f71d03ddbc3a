#!/usr/bin/env bash
printf '[1,' >>"$FND_RESULT"
printf '2]' >>"$FND_RESULT"
