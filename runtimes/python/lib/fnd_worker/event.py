"""Makes the event: the payload by its content type, headers, CloudEvents, the request."""

from .decode import CLOUD_EVENT, decode, media_type, parse

NAMES = (
    ("event-id", "ce-id"),
    ("event-type", "ce-type"),
    ("event-time", "ce-time"),
    ("event-namespace", "ce-source"),
)
# Names of CloudEvents 0.1 in JSON, which have other names since 1.0.
OLD_NAMES = {
    "cloudEventsVersion": "specversion",
    "eventType": "type",
    "eventTypeVersion": "eventtypeversion",
    "eventID": "id",
    "eventTime": "time",
    "schemaURL": "dataschema",
    "contentType": "datacontenttype",
}


class Event(dict):
    """The event: `event["data"]` and so on; keys that Kyma has as attributes are attributes, too."""

    # The request is `req` in Kyma.
    __slots__ = ("req", "_attributes", "_kyma", "_traceparent")

    def __init__(self, head, payload, request):
        headers = request.known
        self.req, self._traceparent, self._kyma = request, head["traceparent"], None
        if media_type(request.media) == CLOUD_EVENT:
            attributes = {}
            data = structured(parse(payload), attributes)
        else:
            attributes = None
            data = decode(payload, request.media)
            if len(headers) > 1 and "ce-type" in headers and "ce-source" in headers:
                attributes = {name: value for name, value in headers.items() if name.startswith("ce-")}
        self._attributes = attributes
        self["data"] = data
        self["extensions"] = extensions = {"request": request}
        # Without an event of its own, the invocation is one.
        own = (head["invocation"], request.media or "application/json", head.get("time"), "fnd/" + head["trigger"])
        for (name, attribute), value in zip(NAMES, own):
            self[name] = headers.get(name) or (attributes.get(attribute) if attributes else None) or value
        if attributes:
            self.update(attributes)
        if "cause" in head:
            extensions.update(head["cause"])

    def __missing__(self, key):
        # A handler may ask for an attribute that a CloudEvent need not have, or whether there is a CloudEvent at all.
        if isinstance(key, str) and key.startswith("ce-"):
            return None
        raise KeyError(key)

    def __getattr__(self, name):
        for key in (name, name.replace("_", "-")):
            if key in self:
                return self[key]
        raise AttributeError("the event has no `%s`" % name)

    @property
    def ceHeaders(self):
        """Kyma's own dictionary: the attributes of a CloudEvent, `data`, `extensions`."""
        if self._kyma is None:
            data = self.get("data")
            self._kyma = dict(self._attributes or {}, extensions=self.get("extensions"))
            # Kyma has no data in other events that are not JSON.
            if self._attributes is not None or media_type(self.req.media) == "application/json":
                self._kyma["data"] = data
        return self._kyma

    @property
    def tracer(self):
        from .trace import Trace, tracer

        return tracer(Trace(self._traceparent, self.req.known))

    def emitCloudEvent(self, type, source, data, optionalCloudEventAttributes=None):
        """Sends an event, as a structured CloudEvent: to `$PUBLISHER_PROXY_ADDRESS`, else to fnd."""
        from uuid import uuid4

        event = {"specversion": "1.0", "id": str(uuid4()), "type": type, "source": source, "data": data}
        event["datacontenttype"] = "text/plain" if isinstance(data, str) else "application/json"
        event.update(optionalCloudEventAttributes or {})
        self.publishCloudEvent(event)

    def publishCloudEvent(self, data):
        from .publish import publish
        from .trace import Trace

        publish(data, Trace(self._traceparent, self.req.known).headers())

    def buildResponseCloudEvent(self, event_id, event_type, event_data):
        made = {"id": event_id, "type": event_type, "data": event_data}
        for name in ("source", "eventtypeversion", "specversion"):
            made[name] = self["ce-" + name]
        kinds = {dict: "application/json", str: "text/plain"}
        return dict(made, datacontenttype=kinds.get(type(event_data)))


def structured(event, attributes):
    """Splits a CloudEvent into its attributes, as `ce-NAME`, and its data."""
    if not isinstance(event, dict):
        raise ValueError("the content type says CloudEvent, but the payload is not a JSON object")
    if "cloudEventsVersion" in event:
        extensions = event.pop("extensions", None)
        if isinstance(extensions, dict):
            event = dict(extensions, **event)
        event = {OLD_NAMES.get(name, name): value for name, value in event.items()}
    attributes.update(("ce-" + name, value) for name, value in event.items() if name not in ("data", "data_base64"))
    if "data_base64" not in event:
        return event.get("data")
    from base64 import b64decode

    return decode(b64decode(event["data_base64"]), event.get("datacontenttype") or "application/octet-stream")
