"""`sdk` of Rafay: the exceptions, the names of headers, and what starts its server, which here only names the handler."""

from .const import *  # noqa: F403
from .errors import *  # noqa: F403

# The functions that the file has asked to serve. The shim takes the last one if the manifest names no handler.
served = []


def serve_function(handler, host="0.0.0.0", port=5000):
    """Names the handler. fnd calls it; nothing listens on a port."""
    served.append(handler)
