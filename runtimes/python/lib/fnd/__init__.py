"""The names that a function can import from fnd: answers with a status, and the exceptions that say how a call failed."""


class TransientException(Exception):
    """Asks for a retry: the attempt ends as `transient`."""


class FailedException(Exception):
    """Says that a retry is useless: the attempt ends as `failed`."""


class ExecuteAgainException(Exception):
    """Says that the work is not done yet: the function is called again after `[poll] repeat`, with `data` as `previous`."""

    def __init__(self, message="", **data):
        super().__init__(message)
        self.data = data


class BadRequest(ValueError):
    """Says that the caller sent something invalid: the call is answered with status 400 and this text."""


class Response:
    """An answer with a status and headers. The body is text, bytes, None, or anything JSON."""

    def __init__(self, body=None, status=200, headers=None):
        self.body, self.status, self.headers = body, status, headers or {}
