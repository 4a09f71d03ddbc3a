"""Fails when a name does not resolve to the addresses it should. Payload: {"NAME": ["ADDRESS", ...]}"""
# /// fnd
# description = "Checks what names resolve to"
# labels = { team = "web" }
# data = { localhost = ["127.0.0.1", "::1"] }
# [limits]
# timeout = "30s"
# [retry]
# retries = 1
# ///
import json
import socket
import sys


def addresses(name: str) -> set[str]:
    return {str(found[4][0]) for found in socket.getaddrinfo(name, None)}


wrong = {}
for name, expected in json.load(sys.stdin).items():
    try:
        found = addresses(name)
    except OSError as error:
        wrong[name] = str(error)
        continue
    # Every address it has must be one of the expected.
    if not found <= set(expected):
        wrong[name] = sorted(found)

print(json.dumps({"wrong": wrong}))
if wrong:
    sys.exit(f"wrong: {', '.join(sorted(wrong))}")
