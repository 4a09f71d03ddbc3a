#!/usr/bin/env bash
echo '{"a": 1}'
echo '{"a": 2}'
