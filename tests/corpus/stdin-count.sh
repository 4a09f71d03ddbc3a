#!/usr/bin/env bash
wc -c
