"""Tells a watcher such as healthchecks.io that a function ran: a function in `[hooks]`.

    [hooks]
    on_success = ["ping"]
    on_failure = ["ping"]

After a success it calls PING_URL, after a failure PING_URL/fail with the last lines of output. If no call comes for too
long, the watcher raises the alarm: also when this machine is off.
"""
# /// fnd
# description = "Pings a watcher after each run of another function"
# on_load = false
# [env]
# PING_URL = ""
# [limits]
# timeout = "30s"
# deadline = "10m"
# [retry]
# retries = 5
# interval = "2s"
# ///
import json
import os
import sys
import urllib.request


def main() -> None:
    payload = json.load(sys.stdin)
    record = payload["record"]
    url = os.environ["PING_URL"].rstrip("/")
    if not url:
        print("set PING_URL in `[env]`", file=sys.stderr)
        sys.exit(65)
    if record["state"] != "succeeded":
        url += "/fail"
    text = "\n".join(part for part in (record.get("message"), payload.get("output")) if part)
    request = urllib.request.Request(url, data=text.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(json.dumps({"url": url, "status": answer.status}))


if __name__ == "__main__":
    main()
