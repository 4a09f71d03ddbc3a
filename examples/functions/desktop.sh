#!/usr/bin/env bash
# Shows a notification on the desktop: `call` of `[alert]` in your own fnd (`fndctl --user`), which runs as you.
#
#     fndctl --user invoke desktop -d '{"alert": "failed", "function": "backup", "message": "no space"}'
#
# /// fnd
# description = "Shows a desktop notification"
# on_load = false
# [sandbox]
# read_write = ["/run/user"]   # the desktop's D-Bus listens there
# [env]
# NOTIFY_SEND = "notify-send"
# ///
set -euo pipefail
payload=$(cat)
# Returns a text of the payload.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin).get(sys.argv[1]) or "")' "$1" <<<"$payload"; }
word=$(field alert)
urgency=critical
if [[ $word == recovered || -z $word ]]; then urgency=normal; fi
export DBUS_SESSION_BUS_ADDRESS=${DBUS_SESSION_BUS_ADDRESS:-unix:path=/run/user/$(id -u)/bus}
"$NOTIFY_SEND" --app-name=fnd --urgency="$urgency" "$(field function) ${word:-fnd}" "$(field message)"
