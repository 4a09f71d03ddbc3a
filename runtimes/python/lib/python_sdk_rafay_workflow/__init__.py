"""The names of Rafay's SDK for workflow functions: `from python_sdk_rafay_workflow import sdk`."""

INSTEAD = {
    "EventDetails": 'the same is in `request["metadata"]`: eventSource, eventSourceName, eventType',
    "StateClientBuilder": "fnd has no such state store: keep state in files below $STATE_DIRECTORY",
}


def __getattr__(name):
    if name in INSTEAD:
        raise ImportError("`%s` of Rafay's SDK is not supported; %s" % (name, INSTEAD[name]))
    raise AttributeError("module `%s` has no `%s`" % (__name__, name))
