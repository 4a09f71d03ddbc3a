"""Decodes payloads by their content type."""

from .jsontext import decode as PARSE

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
