#!/usr/bin/env bash
echo ' {"b": [1, 2]} '
