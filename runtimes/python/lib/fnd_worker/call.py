"""Makes the arguments of a handler: event and context of Kubeless and Kyma, logger and request of Rafay."""

import os

from .answer import TEXT_MAX, record
from .event import Event, Request, decode, decode_previous
from .wire import LOG

FUNCTION = {
    "timeout": float(os.environ.get("FUNC_TIMEOUT") or 180),
    "runtime": os.environ.get("FUNC_RUNTIME"),
    "memory-limit": os.environ.get("FUNC_MEMORY_LIMIT"),
}

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

    __slots__ = ()

    def __getattr__(self, name):
        for key in (name, name.replace("_", "-")):
            if key in self:
                return self[key]
        raise AttributeError(name)


class Logger:
    """Log records of one call. `logger.info("%d items", 3, shop="north")`: keywords become fields."""

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


def event_and_context(handler, wire, call, head, payload, previous):
    request = Request(head, payload)
    event = Event(head, payload, request)
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
    return event, context


def logger_and_request(handler, wire, call, head, payload, previous):
    data = decode(payload, head.get("content_type"))
    if data in (None, "", b""):
        data = {}
    if not isinstance(data, dict):
        raise TypeError("`handle(logger, request)` needs a JSON object, but the payload is not one")
    headers = Request(head, payload).headers
    data["metadata"] = {name: headers.get(header) for name, header in METADATA.items()}
    if previous is not None:
        data["previous"] = decode_previous(previous)
    return Logger(wire, call), data
