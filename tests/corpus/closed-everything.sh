#!/usr/bin/env bash
exec <&- >&- 2>&-
sleep 0.05
exit 6
