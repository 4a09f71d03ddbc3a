#!/usr/bin/env bash
printf 'no line end'
