#!/usr/bin/env bash
printf %s "$DATA"
