"""The trace of a call, for the calls that the handler makes; and Kyma's `event.tracer`, without OpenTelemetry."""

import sys

# Headers that carry a trace, beside `traceparent`.
CARRIED = ("tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags")
TRACER = "io.kyma-project.serverless"


class Trace:
    """The trace of one call."""

    __slots__ = ("traceparent", "_headers")

    def __init__(self, traceparent, headers):
        self.traceparent, self._headers = traceparent, headers

    def headers(self):
        """Returns the headers that make a request part of the trace. B3 headers are among them if the caller sent some."""
        carried = {name: self._headers[name] for name in CARRIED if name in self._headers}
        return dict(carried, traceparent=self.traceparent)


class Span:
    """A span that nobody collects."""

    def __init__(self, trace):
        self._trace = trace

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        """As a decorator, a span is around the function; here that is the function itself."""
        return function

    def get_span_context(self):
        from types import SimpleNamespace

        _, trace, span, flags = self._trace.traceparent.split("-")[:4]
        numbers = {"trace_id": int(trace, 16), "span_id": int(span, 16), "trace_flags": int(flags, 16)}
        return SimpleNamespace(is_valid=True, is_remote=False, trace_state={}, **numbers)

    def is_recording(self):
        return False

    def _ignored(self, *values, **options):
        return None

    set_attribute = set_attributes = add_event = add_link = set_status = record_exception = update_name = end = _ignored


class Tracer:
    """Makes spans that nobody collects, so that code for a tracer runs."""

    def __init__(self, trace):
        self._trace = trace

    def start_as_current_span(self, name, *values, **options):
        return Span(self._trace)

    start_span = start_as_current_span


def tracer(trace):
    """Returns the tracer of OpenTelemetry if the function has imported it, else one that does nothing."""
    if "opentelemetry.trace" in sys.modules:
        return sys.modules["opentelemetry.trace"].get_tracer(TRACER)
    return Tracer(trace)


def attach(traceparent):
    """Makes the trace of a call the current one of OpenTelemetry, so that what the handler sends carries it. It stays until
    the next call of the thread or task: nothing runs between."""
    from opentelemetry import context, trace

    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    parent = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16)))
    context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent), context.Context()))
