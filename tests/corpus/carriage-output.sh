#!/usr/bin/env bash
printf 'one\r\ntwo\r\n'
