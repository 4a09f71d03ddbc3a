"""What few handlers ask of a request: the variables of WSGI, cookies, the name and password of HTTP Basic."""

import re
import sys

from .values import Values

# Others are left out: `X-A_B` would be the same variable as `X-A-B`.
NAME = re.compile(r"[a-z0-9-]+")


def environ(request):
    from io import BytesIO
    from urllib.parse import unquote_to_bytes

    parts, body = request.urlparts, request.body
    made = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
        "QUERY_STRING": request.query_string,
        "REQUEST_URI": request.path + ("?" + request.query_string if request.query_string else ""),
        "SERVER_NAME": parts.netloc.rpartition(":")[0] or parts.netloc,
        "SERVER_PORT": port(parts),
        "SERVER_PROTOCOL": request.protocol or "HTTP/1.1",
        "REMOTE_ADDR": request.remote_addr or "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if request.media:
        made["CONTENT_TYPE"] = request.media
    if request.content_length >= 0:
        made["CONTENT_LENGTH"] = str(request.content_length)
    made["HTTP_HOST"] = parts.netloc
    made.update(variables(request.headers))
    return made


def variables(headers):
    """Returns the headers as variables. Some libraries would take `HTTP_PROXY` for their proxy."""
    return {
        "HTTP_" + name.upper().replace("-", "_"): value
        for name, value in headers.items()
        if name not in ("content-type", "content-length", "proxy") and NAME.fullmatch(name)
    }


def port(parts):
    digits = parts.netloc.rpartition(":")[2]
    return digits if digits.isascii() and digits.isdigit() else "443" if parts.scheme == "https" else "80"


def cookies(header):
    pairs = []
    for part in header.split(";"):
        name, equals, value = part.strip().partition("=")
        value = value.strip()
        if name and equals:
            quoted = len(value) > 1 and value[0] == value[-1] == '"'
            pairs.append((name.strip(), value[1:-1] if quoted else value))
    return Values(pairs)


def basic(header):
    from base64 import b64decode

    method, _, data = header.partition(" ")
    if method.lower() != "basic":
        return None
    try:
        name, colon, password = b64decode(data.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (name, password) if colon else None
