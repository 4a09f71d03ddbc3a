"""The exceptions that a `handle(logger, request)` raises, with their codes."""

import fnd

ERROR_CODE_EXECUTE_AGAIN, ERROR_CODE_FAILED, ERROR_CODE_TRANSIENT = 1, 2, 3


class FunctionException(Exception):
    def __init__(self, message="", error_code=ERROR_CODE_FAILED):
        super().__init__(message)
        self.message, self.error_code = message, error_code


class ExecuteAgainException(FunctionException, fnd.ExecuteAgainException):
    def __init__(self, message="", **data):
        FunctionException.__init__(self, message, ERROR_CODE_EXECUTE_AGAIN)
        self.data = data


class FailedException(FunctionException, fnd.FailedException):
    pass


class TransientException(FunctionException, fnd.TransientException):
    def __init__(self, message=""):
        FunctionException.__init__(self, message, ERROR_CODE_TRANSIENT)
