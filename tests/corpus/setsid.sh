#!/usr/bin/env bash
setsid -f sleep 300
(setsid sleep 300 & )
echo away
