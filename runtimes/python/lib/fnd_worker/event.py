"""Makes the event: the payload by its content type, headers, CloudEvents, the request."""

import json
import os

PARSE = json.JSONDecoder().decode
NAMES = (
    ("event-id", "ce-id"),
    ("event-type", "ce-type"),
    ("event-time", "ce-time"),
    ("event-namespace", "ce-source"),
)
CLOUD_EVENT = "application/cloudevents+json"


def media_type(content_type):
    if content_type == "application/json":
        return content_type
    return content_type.partition(";")[0].strip().lower() if content_type else None


def decode(payload, content_type):
    """Returns a payload by its content type: as JSON, text or bytes. Without content type: JSON if it parses, else text."""
    if payload is None:
        return None
    kind = media_type(content_type)
    if kind in ("application/json", CLOUD_EVENT):
        return parse(payload)
    if kind is None:
        try:
            return PARSE(payload.decode())
        except UnicodeDecodeError:
            return payload
        except ValueError:
            return payload.decode()
    return payload.decode(charset(content_type), "replace") if kind.startswith("text/") else payload


def parse(payload):
    if not payload:
        return None
    try:
        return PARSE(payload.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError("the content type says JSON, but the payload is not: %s" % error) from None


def charset(content_type):
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                "".encode(value.strip('" '))
                return value.strip('" ')
            except LookupError:
                break
    return "utf-8"


def decode_previous(previous):
    return None if previous is None else PARSE(previous.decode())


class Headers(dict):
    """Headers by name; upper and lower case are equal."""

    __slots__ = ()

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Body(bytes):
    """The body of a request: bytes, which can be read like a file as well."""

    at = 0

    def read(self, size=-1):
        end = len(self) if size is None or size < 0 else self.at + size
        piece, self.at = self[self.at : end], min(end, len(self))
        return bytes(piece)

    def seek(self, at):
        self.at = at


class Values(dict):
    """Values by name, the last of each; `getall` has all of them. A missing one is "" as an attribute."""

    def __init__(self, pairs=()):
        pairs = list(pairs)
        super().__init__(pairs)
        self._pairs, self._all = pairs, None

    def getall(self, name):
        # Not by a search: with 10,000 names, a caller could make a handler search 10,000 times.
        if self._all is None:
            self._all = {}
            for known, value in self._pairs:
                self._all.setdefault(known, []).append(value)
        return list(self._all.get(name, ()))

    getlist = getall

    def allitems(self):
        return list(self._pairs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, "")


class Query(Values):
    """Parameters behind the `?`; as text: all of it."""

    def __init__(self, text):
        from urllib.parse import parse_qsl

        super().__init__(parse_qsl(text, keep_blank_values=True))
        self.text = text

    def __str__(self):
        return self.text


class Request:
    """The HTTP request of an invocation. An invocation without one gets a request that would have started it."""

    def __init__(self, head, payload):
        self._payload, self._form, self._made = payload, None, None
        self.content_type = head.get("content_type")
        self.headers = headers = Headers()
        made = head.get("request")
        if made is None:
            self.method, self.path, self.query_string = "GET" if payload is None else "POST", "/", ""
        else:
            self._made = made
            self.method, self.path, self.query_string = made["method"], made["path"], made["query"]
            for name, value in made["headers"]:
                headers[name] = headers[name] + ", " + value if name in headers else value
            self.content_type = self.content_type or headers.get("content-type")
        if self.content_type:
            headers.setdefault("content-type", self.content_type)

    def get_header(self, name, default=None):
        return self.headers.get(name, default)

    @property
    def url(self):
        return self.path + ("?" + self.query_string if self.query_string else "")

    @property
    def query(self):
        return Query(self.query_string)

    @property
    def body(self):
        if not hasattr(self, "_body"):
            self._body = Body(self._payload or b"")
        return self._body

    @property
    def json(self):
        return parse(self._payload) if media_type(self.content_type) == "application/json" and self._payload else None

    @property
    def text(self):
        return (self._payload or b"").decode(charset(self.content_type or ""), "replace")

    @property
    def forms(self):
        """The fields of a form, urlencoded or multipart; empty for a body of another type."""
        return self._parsed()[0]

    @property
    def files(self):
        """The files of a multipart form."""
        return self._parsed()[1]

    def _parsed(self):
        if self._form is None:
            kind, body = media_type(self.content_type), self._payload or b""
            if kind == "multipart/form-data":
                from .form import multipart

                self._form = multipart(body, self.content_type)
            elif kind == "application/x-www-form-urlencoded":
                from .form import urlencoded

                self._form = urlencoded(body), Values()
            else:
                self._form = Values(), Values()
        return self._form

    @property
    def params(self):
        """The parameters of the route, by name."""
        return dict((self._made or {}).get("params", ()))

    def _of_route(key):
        return property(lambda self: (self._made or {}).get(key))

    # None without a route.
    route, remote_addr = _of_route("route"), _of_route("remote")
    scheme, host, protocol = _of_route("scheme"), _of_route("host"), _of_route("protocol")
    del _of_route


class Event(dict):
    """The event: `event["data"]` and so on; keys that Kyma has as attributes are attributes, too."""

    __slots__ = ("ceHeaders",)

    def __init__(self, head, payload, request):
        headers = request.headers
        attributes = {}
        if media_type(request.content_type) == CLOUD_EVENT:
            data = structured(parse(payload), attributes)
        else:
            data = decode(payload, request.content_type)
            if len(headers) > 1 and "ce-type" in headers and "ce-source" in headers:
                attributes = {name: value for name, value in headers.items() if name.startswith("ce-")}
        self.ceHeaders = attributes
        self["data"] = data
        self["extensions"] = {"request": request}
        for name, attribute in NAMES:
            self[name] = headers.get(name) or attributes.get(attribute) if headers else None
        if attributes:
            self.update(attributes)
        if "cause" in head:
            self["extensions"].update(head["cause"])
            self["event-time"] = self["event-time"] or head.get("time")

    def __getattr__(self, name):
        for key in (name, name.replace("_", "-")):
            if key in self:
                return self[key]
        raise AttributeError(name)

    @property
    def tracer(self):
        from opentelemetry import trace

        return trace.get_tracer("fnd")

    def emitCloudEvent(self, type, source, data, optionalCloudEventAttributes=None):
        """Sends an event to `$PUBLISHER_PROXY_ADDRESS`, as a structured CloudEvent."""
        from urllib.request import Request as Post
        from urllib.request import urlopen
        from uuid import uuid4

        address = os.environ.get("PUBLISHER_PROXY_ADDRESS")
        if not address:
            raise RuntimeError("cannot send events: set PUBLISHER_PROXY_ADDRESS in `[env]` of the manifest")
        event = {"specversion": "1.0", "id": str(uuid4()), "type": type, "source": source, "data": data}
        event.setdefault("datacontenttype", "text/plain" if isinstance(data, str) else "application/json")
        event.update(optionalCloudEventAttributes or {})
        post = Post(address, json.dumps(event).encode(), {"content-type": CLOUD_EVENT})
        with urlopen(post, timeout=30) as answer:
            answer.read()


def structured(event, attributes):
    """Splits a CloudEvent into its attributes, as `ce-NAME`, and its data."""
    if not isinstance(event, dict):
        raise ValueError("the content type says CloudEvent, but the payload is not a JSON object")
    attributes.update(("ce-" + name, value) for name, value in event.items() if name not in ("data", "data_base64"))
    if "data_base64" not in event:
        return event.get("data")
    from base64 import b64decode

    return decode(b64decode(event["data_base64"]), event.get("datacontenttype") or "application/octet-stream")
