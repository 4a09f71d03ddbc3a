"""The module `sdk` of Kyma's newer form, `main()`. Without flask a function learns nothing of its call."""

import os

try:
    from flask import has_request_context, request
except ImportError:
    request, has_request_context = None, bool

from fnd_worker.decode import CLOUD_EVENT, decode, media_type, parse
from fnd_worker.event import structured
from fnd_worker.publish import publish
from fnd_worker.trace import Trace, tracer


class CloudEvent:
    """A CloudEvent: `get_type()`, `get_data()` and so on, one for each attribute."""

    def __init__(self, attributes, data):
        self._attributes, self._data = attributes, data

    def get_data(self):
        return self._data

    def get_attributes(self):
        return dict(self._attributes)

    def get_extension(self, name):
        return self._attributes.get(name)

    def __getattr__(self, name):
        if not name.startswith("get_"):
            raise AttributeError(name)
        value = self._attributes.get(name[4:])
        return lambda: value


def get_cloud_event():
    """Returns the CloudEvent of the call, or None."""
    if request is None:
        raise ImportError("`get_cloud_event` needs flask: add `flask` to the dependencies")
    attributes = {}
    if media_type(request.content_type) == CLOUD_EVENT:
        data = structured(parse(request.get_data()), attributes)
    elif "ce-type" in request.headers and "ce-source" in request.headers:
        data = decode(request.get_data(), request.content_type)
        attributes.update((name.lower(), value) for name, value in request.headers if name.lower().startswith("ce-"))
    else:
        return None
    return CloudEvent({name[3:]: value for name, value in attributes.items()}, data)


def emit_cloud_event(type, source, data, optional_attributes=None):
    from uuid import uuid4

    event = {"specversion": "1.0", "id": str(uuid4()), "type": type, "source": source, "data": data}
    publish(dict(event, **(optional_attributes or {})), _trace().headers())


def get_tracer():
    return tracer(_trace())


def _trace():
    headers = request.headers if has_request_context() else {}
    return Trace(headers.get("traceparent") or "00-%s-%s-00" % ("0" * 32, "0" * 16), headers)


def get_function_name():
    return os.environ.get("FND_FUNCTION", "")


def get_namespace():
    return os.environ.get("SERVICE_NAMESPACE", "")


def get_runtime():
    return os.environ.get("FUNC_RUNTIME", "")


def get_timeout():
    return int(float(os.environ.get("FUNC_TIMEOUT") or 180))


def get_body_size_limit():
    return int(os.environ.get("FUNC_BODY_MB_LIMIT") or 100)
