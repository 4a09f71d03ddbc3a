"""The exceptions a `handle(logger, request)` raises."""

from fnd import ExecuteAgainException, FailedException, TransientException

__all__ = ["ExecuteAgainException", "FailedException", "TransientException"]
