"""Fails when a TLS certificate is wrong or about to expire.

    fndctl invoke cert-expiry -d '{"hosts": ["example.com", "mail.example.com:993"], "days": 14}'

A certificate of an own authority is checked against `"ca_file"`.
"""
# /// fnd
# description = "Days until certificates expire"
# on_load = false
# labels = { team = "ops" }
# data = { hosts = ["example.com"], days = 14 }
# [limits]
# timeout = "60s"
# [retry]
# retries = 2
# interval = "5s"
# on = ["transient", "timeout"]
# ///
import json
import os
import socket
import ssl
import sys
import time

TRANSIENT = 75  # fnd tries again after this exit code


def days_left(host: str, port: int, ca_file: str | None) -> float:
    context = ssl.create_default_context(cafile=ca_file)
    with socket.create_connection((host, port), timeout=10) as connection:
        with context.wrap_socket(connection, server_hostname=host) as secured:
            expiry = ssl.cert_time_to_seconds(secured.getpeercert()["notAfter"])
    return (expiry - time.time()) / 86400


def main() -> int:
    payload = json.load(sys.stdin)
    least = payload.get("days", 14)
    report, worst = {}, 0
    for name in payload["hosts"]:
        host, _, port = name.partition(":")
        try:
            left = days_left(host, int(port or 443), payload.get("ca_file"))
            report[name] = {"days_left": round(left, 1), "ok": left >= least}
            if left < least:
                print(f"{name}: {left:.1f} days left, fewer than {least}", file=sys.stderr)
                worst = worst or 1
        except ssl.SSLError as error:
            report[name] = {"ok": False, "error": str(error)}
            print(f"{name}: {error}", file=sys.stderr)
            worst = worst or 1
        except OSError as error:
            report[name] = {"ok": False, "error": str(error)}
            print(f"{name}: not reachable: {error}", file=sys.stderr)
            worst = TRANSIENT
    with open(os.environ["FND_RESULT"], "w", encoding="utf-8") as result:
        json.dump(report, result)
    return worst


if __name__ == "__main__":
    sys.exit(main())
