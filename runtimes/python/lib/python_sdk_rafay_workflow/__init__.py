"""The names of Rafay's SDK for workflow functions. fnd serves the function itself, so nothing here serves HTTP."""

from .errors import ExecuteAgainException, FailedException, TransientException
from .event_details import EventDetails, EventType
from .sdk import serve_function

__all__ = [
    "serve_function",
    "ExecuteAgainException",
    "FailedException",
    "TransientException",
    "EventDetails",
    "EventType",
]


def __getattr__(name):
    if name == "StateClientBuilder":
        from .state_client import StateClientBuilder

        return StateClientBuilder
    raise AttributeError("module `%s` has no `%s`" % (__name__, name))
