"""Makes the arguments of a handler: event and context of Kubeless and Kyma, logger and request of Rafay."""

import os
import sys

from .answer import TEXT_MAX, record
from .decode import decode, decode_previous
from .event import Event
from .request import Request
from .wire import LOG

FUNCTION = {
    "timeout": float(os.environ.get("FUNC_TIMEOUT") or 180),
    "runtime": os.environ.get("FUNC_RUNTIME"),
    "memory-limit": os.environ.get("FUNC_MEMORY_LIMIT"),
    # Kyma's.
    "namespace": os.environ.get("SERVICE_NAMESPACE"),
    "body-size-limit": int(os.environ.get("FUNC_MEMFILE_MAX") or 100 << 20),
}

OPENTELEMETRY = "opentelemetry.trace"

# Names of Rafay's metadata, and the headers they come from.
METADATA = {
    "activityID": "x-activity-id",
    "environmentID": "x-environment-id",
    "environmentName": "x-environment-name",
    "organizationID": "x-organization-id",
    "projectID": "x-project-id",
    "stateStoreUrl": "x-eaas-state-endpoint",
    "stateStoreToken": "x-eaas-state-token",
    "eventSource": "x-event-source",
    "eventSourceName": "x-event-source-name",
    "eventType": "x-event-type",
}


class Context(dict):
    """`context["function-name"]`, or `context.function_name`."""

    __slots__ = ("_headers",)

    def __getattr__(self, name):
        for key in (name, name.replace("_", "-")):
            if key in self:
                return self[key]
        raise AttributeError("the context has no `%s`" % name)

    @property
    def trace(self):
        """The trace of this call: `context.trace.headers()` for a request that shall belong to it."""
        from .trace import Trace

        return Trace(self["traceparent"], self._headers)


class RafayRequest(dict):
    """The request of `handle(logger, request)`; `request.trace` as `context.trace`."""

    __slots__ = ("_traceparent", "_headers")

    @property
    def trace(self):
        from .trace import Trace

        return Trace(self._traceparent, self._headers)


class Logger:
    """Log records of one call. `logger.info("%d items", 3, shop="north")`: keywords become fields."""

    name = os.environ.get("FND_FUNCTION")

    def __init__(self, wire, call):
        self._wire, self._call = wire, call

    def _log(self, level, text, arguments, fields):
        text = str(text)
        if arguments:
            try:
                text %= arguments
            except (TypeError, ValueError):
                text = " ".join([text, *map(str, arguments)])
        error = fields.pop("exc_info", None)
        for option in ("stack_info", "stacklevel"):
            fields.pop(option, None)
        fields.update(fields.pop("extra", None) or {})
        if error:
            import traceback

            text = (text + "\n" + traceback.format_exc())[-TEXT_MAX:]
        self._wire.send(self._call, LOG, record(level, text, fields))

    def debug(self, text, *arguments, **fields):
        self._log("debug", text, arguments, fields)

    def info(self, text, *arguments, **fields):
        self._log("info", text, arguments, fields)

    __call__ = info

    def warning(self, text, *arguments, **fields):
        self._log("warning", text, arguments, fields)

    warn = warning

    def error(self, text, *arguments, **fields):
        self._log("error", text, arguments, fields)

    critical = fatal = error

    def exception(self, text, *arguments, **fields):
        self._log("error", text, arguments, dict(fields, exc_info=True))

    def log(self, level, text, *arguments, **fields):
        """A record of a level of `logging`: a number."""
        names = ((40, "error"), (30, "warning"), (20, "info"))
        self._log(next((name for least, name in names if level >= least), "debug"), text, arguments, fields)

    def isEnabledFor(self, level):
        return True

    def getEffectiveLevel(self):
        return 10

    def setLevel(self, level):
        """fnd keeps all records; `fndctl logs` filters them."""


def attach(traceparent):
    """Gives OpenTelemetry the trace of the call, if the function has imported it."""
    from .trace import attach

    attach(traceparent)


def event_and_context(handler, wire, call, head, payload, previous):
    request = Request(head, payload)
    event = Event(head, payload, request)
    if OPENTELEMETRY in sys.modules:
        attach(head["traceparent"])
    if handler.parameters < 2:
        return (event,)[: handler.parameters]
    context = Context(FUNCTION)
    context["function-name"] = handler.name
    for name in ("invocation", "attempt", "poll", "trigger", "traceparent"):
        context[name] = head[name]
    context["deadline"] = head.get("deadline_ms")
    context["keptn-context"] = head.get("context")
    context["previous"] = decode_previous(previous)
    context["log"] = Logger(wire, call)
    context._headers = request.known
    return event, context


def logger_and_request(handler, wire, call, head, payload, previous):
    data = decode(payload, head.get("content_type"))
    if data in (None, "", b""):
        data = {}
    if not isinstance(data, dict):
        raise TypeError("`handle(logger, request)` needs a JSON object, but the payload is not one")
    headers = Request(head, payload).known
    data = RafayRequest(data)
    data["metadata"] = {name: headers.get(header) for name, header in METADATA.items()}
    if previous is not None:
        data["previous"] = decode_previous(previous)
    data._traceparent, data._headers = head["traceparent"], headers
    if OPENTELEMETRY in sys.modules:
        attach(data._traceparent)
    return Logger(wire, call), data
