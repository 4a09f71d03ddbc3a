#!/usr/bin/env bash
echo noise
echo '{"answer": 42}' >"$FND_RESULT"
