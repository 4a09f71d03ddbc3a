#!/usr/bin/env bash
exit 99
