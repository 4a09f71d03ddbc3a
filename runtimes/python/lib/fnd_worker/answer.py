"""Makes the messages to fnd: results, failures, log records."""

import sys
from time import time

from fnd import Response

from .jsontext import encode as JSON

# Largest text of a log record or a failure in bytes; a larger frame would end the worker.
TEXT_MAX = 16 << 10
STACK_MAX = 32 << 10
PLAIN = {"application/json", "text/plain; charset=utf-8", "application/octet-stream"}
KINDS = {
    "TransientException": "transient",
    "FailedException": "failed",
    "ExecuteAgainException": "execute-again",
}
EXITS = {75: "transient", 65: "failed", 99: "execute-again"}


class BadAnswer(Exception):
    """Raised if the value that the handler returned cannot be sent."""


def result(value):
    """Returns the content of a Result in two pieces, of which the second may be large."""
    head = {}
    if not isinstance(value, (str, bytes, type(None))):
        value = response(value, head)
    if value is not None:
        value, media_type = body(value)
        head.setdefault("content_type", media_type)
        head["data"] = len(value)
    if len(head) == 2 and head["content_type"] in PLAIN:
        # Nearly every answer has this form; this is twice as fast as the encoder.
        head = b'{"content_type":"%s","data":%d}' % (head["content_type"].encode(), len(value))
    else:
        head = JSON(head).encode()
    return len(head).to_bytes(4, "little") + head, value or b""


def body(value):
    if isinstance(value, str):
        try:
            return value.encode(), "text/plain; charset=utf-8"
        except UnicodeEncodeError as error:
            raise BadAnswer("the handler returned text that is not valid Unicode: %s" % error) from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value if isinstance(value, bytes) else bytes(value), "application/octet-stream"
    try:
        return JSON(value).encode(), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise BadAnswer("the handler returned a value that is not text, bytes or JSON: %s" % error) from None


def response(value, head):
    """Takes status and headers out of an answer that has them, and returns its body."""
    if isinstance(value, dict):
        keys = value.keys()
        # A dictionary is data, unless it has only the keys of a response.
        if not (keys <= {"status", "headers", "body"} and len(keys) > 1 and is_status(value.get("status"))):
            return value
        status, headers, content = value["status"], value.get("headers"), value.get("body")
    elif isinstance(value, Response):
        status, headers, content = value.status, value.headers, value.body
    elif hasattr(value, "status_code") and hasattr(value, "headers"):
        # Responses of bottle, flask, requests and similar libraries.
        status, headers = value.status_code, of_library(value)
        if hasattr(value, "get_data"):
            content = value.get_data()
        else:
            content = joined(value.content if hasattr(value, "content") else getattr(value, "body", None))
    elif hasattr(value, "__next__"):
        # A generator: its pieces are the body.
        return joined(value)
    else:
        return value
    if not is_status(status):
        raise BadAnswer("the handler answered with status %r: expected a number from 200 to 599" % (status,))
    head["status"] = status
    pairs = headers.items() if hasattr(headers, "items") else headers or ()
    # Of a list each item is a header of its own, as several cookies are.
    pairs = [
        (str(name).lower(), str(text))
        for name, value in pairs
        for text in (value if isinstance(value, (list, tuple)) else [value])
    ]
    for name, text in pairs:
        if name == "content-type":
            head["content_type"] = text
    pairs = [pair for pair in pairs if pair[0] not in ("content-type", "content-length")]
    if pairs:
        head["headers"] = pairs
    return content


def of_library(value):
    """Returns all headers of a library's response, also those that occur more than once, such as cookies."""
    headers = value.headers
    if not hasattr(headers, "allitems"):
        return headers
    pairs = list(headers.allitems())
    if getattr(value, "_cookies", None):
        pairs += [(name, text) for name, text in value.headerlist if name.lower() == "set-cookie"]
    return pairs


def joined(content):
    """Returns the body of a library's response: its pieces, which are text or bytes, or the content of a file."""
    if content is None or isinstance(content, (str, bytes, dict)):
        return content
    try:
        if hasattr(content, "read"):
            return content.read()
        pieces = list(content)
        if all(isinstance(piece, str) for piece in pieces):
            return "".join(pieces)
        return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
    except (TypeError, AttributeError) as error:
        raise BadAnswer("the handler returned an answer in pieces that are neither text nor bytes: %s" % error) from None


def is_status(value):
    return isinstance(value, int) and not isinstance(value, bool) and 200 <= value < 600


def is_answer(error):
    """Says whether an exception is an answer: bottle's `HTTPResponse` and `HTTPError`, which `abort` and `redirect` raise."""
    return any(known.__name__ == "HTTPResponse" and known.__module__ == "bottle" for known in type(error).__mro__)


def failure(error, entry, loading=False):
    """Returns the content of an Error."""
    answer = {"kind": kind(error), "message": message(error)}
    if answer["kind"] == "error" or loading:
        answer["kind"] = "error"
        answer["stack"] = stack(error)
    if answer["kind"] == "execute-again":
        data = getattr(error, "data", None)
        try:
            return JSON(dict(answer, data=data)).encode()
        except (TypeError, ValueError, RecursionError) as why:
            answer = {"kind": "bad-answer", "message": "execute again: the data is not JSON: %s" % why}
    return JSON(answer).encode("utf-8", "backslashreplace")


def kind(error):
    if isinstance(error, BadAnswer):
        return "bad-answer"
    if isinstance(error, SystemExit):
        return EXITS.get(error.code, "error")
    for known in type(error).__mro__:
        # Compared by name, since a function may have its own copy of the SDK.
        if known.__name__ in KINDS:
            return KINDS[known.__name__]
    return "error"


def message(error):
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, str) else "exit %s" % (error.code or 0)
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        # Its text is only the key.
        text = "KeyError: " + text
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def stack(error):
    """Returns the traceback, from the function's first frame on."""
    import traceback

    frames, ours = error.__traceback__, __file__.rpartition("/")[0]
    while frames and frames.tb_frame.f_code.co_filename.startswith(ours):
        frames = frames.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception as why:  # an exception whose own text fails
        text = "%s (its traceback failed: %r)" % (type(error).__name__, why)
    return text if len(text) <= STACK_MAX else "..." + text[-STACK_MAX:]


def record(level, text, fields):
    """Returns the content of a Log."""
    answer = {"time_ms": int(time() * 1000), "level": level, "message": text[:TEXT_MAX]}
    if fields:
        try:
            encoded = JSON(fields)
        except (TypeError, ValueError, RecursionError):
            fields = {str(name): str(value) for name, value in fields.items()}
            encoded = JSON(fields)
        if len(encoded) <= TEXT_MAX:
            answer["fields"] = fields
    return JSON(answer).encode("utf-8", "backslashreplace")


def flush():
    """Flushes output: what was printed belongs to the call that is answered next."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            # The function has closed or replaced the stream, so there is nothing to flush.
            pass
