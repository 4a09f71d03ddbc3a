#!/usr/bin/env bash
echo noise
echo "plain words" >"$FND_RESULT"
