"""Requests to fnd at the socket in `FND_SOCKET`, which a function with `[access]` has."""

import json
import os
from http.client import HTTPConnection, HTTPException
from socket import AF_UNIX, socket

TIMEOUT = 30


class Refused(Exception):
    """fnd has refused a request."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status


class Connection(HTTPConnection):
    def connect(self):
        self.sock = socket(AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.environ["FND_SOCKET"])


def ask(method, path, headers, body=None):
    """Sends a request; returns the JSON of the answer.

    Raises `Refused` if fnd refuses the request, with what it says, and `ConnectionError` if fnd cannot be asked."""
    connection = Connection("fnd", timeout=TIMEOUT)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, HTTPException) as error:
        raise ConnectionError("cannot ask fnd for %s %s: %s" % (method, path, error or type(error).__name__)) from error
    finally:
        connection.close()
    try:
        value = json.loads(content) if content else None
    except ValueError:
        value = content.decode(errors="replace")
    if answer.status >= 300:
        detail = value.get("detail") if isinstance(value, dict) else value
        raise Refused(answer.status, str(detail or "status %d" % answer.status))
    return value
