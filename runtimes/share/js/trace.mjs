// The trace of a call, for the calls that a handler makes itself. Node and deno share this file.

/** Headers of a request that say where in a trace it is. fnd has put the span of this attempt into them. */
const HEADERS = ["tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"];

/** `context.trace`: the place of this attempt in its trace. */
export class Trace {
  #received;
  constructor(traceparent, received) {
    this.traceparent = traceparent;
    this.#received = received;
  }
  /** Returns the headers for a call, so that what it starts is part of the same trace. */
  headers() {
    const headers = {};
    if (this.traceparent) headers.traceparent = this.traceparent;
    for (const name of HEADERS) if (this.#received[name] !== undefined) headers[name] = this.#received[name];
    return headers;
  }
}

/** `event.tracer` of Kyma: it takes what a tracer of OpenTelemetry takes. fnd writes the span of an attempt itself, and no others. */
export class Tracer {
  #traceparent;
  constructor(traceparent) {
    this.#traceparent = traceparent;
  }
  startSpan() {
    return new Span(this.#traceparent);
  }
  /** Calls the last argument with a span, and returns what it returns. */
  startActiveSpan(...all) {
    return all.at(-1)(this.startSpan());
  }
}

class Span {
  #traceparent;
  constructor(traceparent) {
    this.#traceparent = traceparent;
  }
  spanContext() {
    const [, traceId = "0".repeat(32), spanId = "0".repeat(16), flags = "00"] = this.#traceparent?.split("-") ?? [];
    return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
  }
  isRecording() {
    return false;
  }
  end() {}
  recordException() {}
}
for (const name of ["addEvent", "addLink", "addLinks", "setAttribute", "setAttributes", "setStatus", "updateName"]) {
  Span.prototype[name] = function () {
    return this;
  };
}
