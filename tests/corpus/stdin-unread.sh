#!/usr/bin/env bash
echo "did not look"
