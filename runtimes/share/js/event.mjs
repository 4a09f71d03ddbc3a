// Arguments of a handler: event and context, with the names of Kubeless and Kyma. Node and deno share this file.
import { fixed } from "./host.mjs";
import { Event, Trace } from "./kyma.mjs";
import { CLOUD_EVENT, decode, mediaType, parse, structured } from "./payload.mjs";
import { Request } from "./request.mjs";
import { Reply } from "./response.mjs";
import { LOG } from "./wire.mjs";

const LOG_MAX = 16 << 10;
/** Attributes of CloudEvents 0.1 by their headers, with the names of Kubeless's runtime for them. */
const FORMER = {
  "ce-eventtype": "eventType",
  "ce-eventtypeversion": "eventTypeVersion",
  "ce-eventid": "eventID",
  "ce-eventtime": "eventTime",
  "ce-eventsource": "source",
  "ce-schemaurl": "schemaURL",
  "ce-cloudeventsversion": "cloudEventsVersion",
};

/** Removes what a call has left in `TMPDIR`. */
export const done = (request) => Request.done(request);

/** Returns the event of a call, its request, and the response that the handler may write. */
export const eventOf = (function (head, payload) {
  const request = new Request(head, payload);
  const { headers } = request;
  const response = new Reply();
  const event = new Event(request, response, head.traceparent);
  const contentType = headers["content-type"];
  const attributes = {};
  if (mediaType(contentType) === CLOUD_EVENT) {
    event.data = structured(parse(payload), attributes);
    if ("ce-cloudEventsVersion" in attributes) {
      for (const name of Object.values(FORMER)) event[name] = attributes["ce-" + name];
    }
  } else {
    event.data = decode(payload, contentType, () => request.rawBody);
    if (headers["ce-type"] && headers["ce-source"]) {
      for (const name in headers) if (name.startsWith("ce-")) attributes[name] = headers[name];
    } else if (headers["ce-eventid"] || headers["ce-eventtype"]) {
      for (const name in FORMER) event[FORMER[name]] = headers[name];
    }
  }
  event["event-id"] = headers["event-id"] ?? attributes["ce-id"] ?? head.invocation;
  event["event-type"] = headers["event-type"] ?? attributes["ce-type"] ?? contentType ?? "application/json";
  event["event-time"] = headers["event-time"] ?? attributes["ce-time"] ?? head.time;
  event["event-namespace"] = headers["event-namespace"] ?? attributes["ce-source"] ?? "fnd/" + head.trigger;
  event.extensions = { ...head.cause, request, response };
  Object.assign(event, attributes);
  return { event, request, response };
});

/** Returns the body of a request as Kyma's parsers of express give it; data is that of its event. */
export function parsedBody(request, payload, data) {
  if (!payload?.length) return {};
  switch (mediaType(request.headers["content-type"])) {
    case CLOUD_EVENT:
      return request.json();
    case "application/x-www-form-urlencoded":
      return { ...request.forms };
    default:
      return data;
  }
}

/** Whether a call is cancelled. Most handlers use no signal, so it is made at the first use. */
export class Cancellation {
  #controller;
  #isCancelled = false;

  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#isCancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  cancel() {
    this.#isCancelled = true;
    this.#controller?.abort();
  }
}

const CANCELLATION = Symbol("cancellation");

/** Not among the keys of a context, so that its JSON is as before. */
const CONTEXT = {
  get signal() {
    return this[CANCELLATION]?.signal;
  },
};

export const contextOf = (function (head, previous, call, name, wire, request, cancellation) {
  return {
    __proto__: CONTEXT,
    [CANCELLATION]: cancellation,
    "function-name": name,
    ...fixed,
    invocation: head.invocation,
    attempt: head.attempt,
    poll: head.poll,
    trigger: head.trigger,
    deadline: head.deadline_ms ?? null,
    traceparent: head.traceparent,
    trace: new Trace(head.traceparent, request.headers),
    "keptn-context": head.context ?? null,
    previous,
    log: logger(wire, call),
  };
});

/** Returns `log(message, fields)`, with `log.debug`, `log.info`, `log.warning` and `log.error`. */
const logger = (function (wire, call) {
  const record = (level) => (message, fields) => {
    const made = { time_ms: Date.now(), level, message: String(message).slice(0, LOG_MAX) };
    if (fields !== undefined) {
      let text = "";
      try {
        text = JSON.stringify(fields) ?? "";
      } catch {
        text = JSON.stringify({ value: String(fields) });
      }
      // A record that is too long would end the worker.
      if (text.startsWith("{") && text.length <= LOG_MAX) made.fields = JSON.parse(text);
    }
    wire.json(call, LOG, made);
  };
  const log = record("info");
  log.info = log;
  log.debug = record("debug");
  log.warning = log.warn = record("warning");
  log.error = record("error");
  return log;
});
