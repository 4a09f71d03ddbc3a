"""What a function may import of fnd: answers with a status, and the exceptions that say how a call failed."""


class TransientException(Exception):
    """Try again: the attempt ended as `transient`."""


class FailedException(Exception):
    """Trying again is useless: the attempt ended as `failed`."""


class ExecuteAgainException(Exception):
    """Not done yet: the function is called again after `[poll] repeat`, and `data` comes back as `previous`."""

    def __init__(self, message="", **data):
        super().__init__(message)
        self.data = data


class Response:
    """An answer with a status and headers. The body is text, bytes, None, or anything JSON."""

    def __init__(self, body=None, status=200, headers=None):
        self.body, self.status, self.headers = body, status, headers or {}
