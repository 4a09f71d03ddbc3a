#!/usr/bin/env bash
kill -SEGV $$
