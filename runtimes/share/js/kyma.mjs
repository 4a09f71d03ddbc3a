// The things that Kyma gives to functions: the helpers of an event, and the module `sdk` of its newest runtimes. And the trace of a call,
// for the calls that a handler makes itself. Node and deno share this file.
import { env, fixed } from "./host.mjs";
import { CLOUD_EVENT, decode, mediaType, structured } from "./payload.mjs";

/** Returns the media type for the data of an event, as Kyma chooses it. */
const typeOf = (data) => (typeof data === "string" ? "text/plain" : "application/json");

/** Sends an event to `$PUBLISHER_PROXY_ADDRESS`. Returns what Kyma's functions read of its answer. */
async function publish(body, trace) {
  const address = env("PUBLISHER_PROXY_ADDRESS");
  if (!address) throw new Error("cannot send events: set PUBLISHER_PROXY_ADDRESS in `[env]` of the manifest");
  const headers = { "content-type": CLOUD_EVENT, ...trace?.headers() };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
  const { status, statusText } = answer;
  const data = await answer.text();
  if (answer.ok) return { status, statusText, headers: Object.fromEntries(answer.headers), data };
  throw Object.assign(new Error(`${address} answered ${status}`), { response: { status, statusText, data } });
}

/** Sends data as a structured CloudEvent. */
function emit(trace, type, source, data, attributes) {
  const made = { specversion: "1.0", id: crypto.randomUUID(), time: new Date().toISOString(), datacontenttype: typeOf(data) };
  return publish({ ...made, type, source, data, ...attributes }, trace);
}

/** An event with Kyma's helpers. They need no `this`, as in Kyma. */
export class Event {
  #request;
  #response;
  #trace;
  constructor(request, response, traceparent) {
    this.#request = request;
    this.#response = response;
    this.#trace = traceparent;
  }
  get setResponseHeader() {
    return (name, value) => void this.#response.set(name, value);
  }
  get setResponseContentType() {
    return (value) => void this.#response.type(value);
  }
  get setResponseStatus() {
    return (code) => void this.#response.status(Number(code));
  }
  get emitCloudEvent() {
    return (...args) => emit(new Trace(this.#trace, this.#request.headers), ...args);
  }
  get publishCloudEvent() {
    return (event) => publish(event, new Trace(this.#trace, this.#request.headers));
  }
  get buildResponseCloudEvent() {
    return (id, type, data) => ({
      type,
      source: this["ce-source"],
      eventtypeversion: this["ce-eventtypeversion"],
      specversion: this["ce-specversion"],
      id,
      data,
      datacontenttype: typeOf(data),
    });
  }
  get tracer() {
    return new Tracer(this.#trace);
  }
}

/** The functions of the module `sdk`. */
export const sdk = {
  getTracer: () => new Tracer(undefined),
  emitCloudEvent: (...args) => emit(undefined, ...args),
  /** Returns the CloudEvent of a request of express; null for another request. */
  getCloudEvent(request) {
    const { headers } = request;
    const attributes = {};
    let data;
    if (mediaType(headers["content-type"]) === CLOUD_EVENT) {
      data = structured(request.json(), attributes);
    } else if (headers["ce-type"] && headers["ce-source"]) {
      data = decode(request.rawBody, headers["content-type"], () => request.rawBody);
      for (const name in headers) if (name.startsWith("ce-")) attributes[name] = headers[name];
      if (headers["content-type"]) attributes["ce-datacontenttype"] = headers["content-type"];
    } else {
      return null;
    }
    const event = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name.slice(3), value]));
    return { ...event, data };
  },
  getFunctionName: () => env("FND_FUNCTION") ?? "",
  getNamespace: () => fixed.namespace ?? "",
  getRuntime: () => fixed.runtime,
  getTimeout: () => fixed.timeout,
  getBodySizeLimit: () => fixed["body-size-limit"],
};

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
