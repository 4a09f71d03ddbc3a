// Arguments of a handler: event and context, with the names of Kubeless and Kyma. Node and deno share this file.
import { Buffer } from "node:buffer";
import process from "node:process";
import { forget, multipart, none, urlencoded } from "./form.mjs";
import { LOG } from "./wire.mjs";

const CLOUD_EVENT = "application/cloudevents+json";
const TEXT = /^text\/|^application\/(x-www-form-urlencoded|(ecma|java)script|xml)$|\+xml$/;
const LOG_MAX = 16 << 10;

/** Returns a variable; without the permission to read it (deno) it counts as absent. */
export function env(name) {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}

const fixed = {
  timeout: Number(env("FUNC_TIMEOUT") || 180),
  runtime: env("FUNC_RUNTIME"),
  "memory-limit": env("FUNC_MEMORY_LIMIT"),
};

/** Splits an Invoke into head, payload and previous. */
export function parts(content) {
  const begin = 4 + content.readUInt32LE(0);
  const head = JSON.parse(content.toString("utf8", 4, begin));
  const end = begin + (head.data ?? 0);
  return {
    head,
    payload: head.data === undefined ? undefined : content.subarray(begin, end),
    previous: head.previous === undefined ? null : JSON.parse(content.toString("utf8", end, end + head.previous)),
  };
}

const mediaType = (text) => text?.split(";", 1)[0].trim().toLowerCase();

/** Returns a payload by its content type: as JSON, text or bytes. Without content type: JSON if it parses, else text. */
function decode(payload, contentType) {
  if (payload === undefined) return null;
  const kind = mediaType(contentType);
  if (kind === "application/json" || kind === CLOUD_EVENT) return parse(payload);
  if (kind !== undefined) return TEXT.test(kind) ? payload.toString() : payload;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(payload);
  } catch {
    return payload;
  }
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parse(payload) {
  if (!payload?.length) return null;
  try {
    return JSON.parse(payload.toString());
  } catch (error) {
    throw new SyntaxError(`the content type says JSON, but the payload is not: ${error.message}`);
  }
}

/** The HTTP request of an invocation. An invocation without one gets a request that would have started it. */
class Request {
  #form;
  constructor(head, payload) {
    const made = head.request;
    this.method = made?.method ?? (payload === undefined ? "GET" : "POST");
    this.path = made?.path ?? "/";
    this.queryString = made?.query ?? "";
    this.url = this.path + (this.queryString && "?" + this.queryString);
    // null without a route; `params` are the parameters of its pattern.
    this.route = made?.route ?? null;
    this.remote_addr = made?.remote ?? null;
    this.scheme = made?.scheme ?? null;
    this.host = made?.host ?? null;
    this.params = Object.fromEntries(made?.params ?? []);
    this.headers = {};
    for (const [name, value] of made?.headers ?? []) {
      this.headers[name] = name in this.headers ? this.headers[name] + ", " + value : value;
    }
    if (head.content_type) this.headers["content-type"] ??= head.content_type;
    this.body = payload ?? Buffer.alloc(0);
  }
  get query() {
    return Object.fromEntries(new URLSearchParams(this.queryString));
  }
  get(name) {
    return this.headers[name.toLowerCase()];
  }
  header(name) {
    return this.get(name);
  }
  get_header(name) {
    return this.get(name);
  }
  text() {
    return this.body.toString();
  }
  json() {
    return parse(this.body);
  }
  /** The fields of a form, urlencoded or multipart: text, or an array where there are several; empty for other bodies. */
  get forms() {
    return this.parsed().forms;
  }
  /** The files of a multipart form. */
  get files() {
    return this.parsed().files;
  }
  parsed() {
    if (this.#form === undefined) {
      const type = this.headers["content-type"], kind = mediaType(type);
      if (kind === "multipart/form-data") this.#form = multipart(this.body, type);
      else if (kind === "application/x-www-form-urlencoded") this.#form = urlencoded(this.body);
      else this.#form = none();
    }
    return this.#form;
  }
  static done(request) {
    if (request.#form !== undefined) forget(request.#form);
  }
}

/** Removes what a call has left in `TMPDIR`. */
export const done = (event) => Request.done(event.extensions.request);

/** The response that a handler may write itself, as in express; `sent` is called when it is complete. */
class Reply {
  constructor(sent) {
    this.statusCode = undefined;
    this.headers = {};
    this.pieces = [];
    this.sent = sent;
    this.headersSent = false;
  }
  status(code) {
    this.statusCode = code;
    return this;
  }
  set(name, value) {
    if (typeof name === "object") for (const [key, text] of Object.entries(name)) this.set(key, text);
    else this.headers[name.toLowerCase()] = String(value);
    return this;
  }
  setHeader(name, value) {
    return this.set(name, value);
  }
  header(name, value) {
    return this.set(name, value);
  }
  type(value) {
    return this.set("content-type", value);
  }
  write(piece) {
    this.pieces.push(Buffer.from(piece));
    return true;
  }
  end(piece) {
    if (piece !== undefined) this.write(piece);
    this.send(this.pieces.length ? Buffer.concat(this.pieces) : undefined);
  }
  send(body) {
    if (this.headersSent) return this;
    this.headersSent = true;
    this.sent({ value: body });
    return this;
  }
  json(body) {
    this.headers["content-type"] ??= "application/json";
    return this.send(JSON.stringify(body));
  }
  sendStatus(code) {
    return this.status(code).send(undefined);
  }
}

class Event {
  setResponseHeader(name, value) {
    this.extensions.response.set(name, value);
  }
  setResponseContentType(value) {
    this.extensions.response.type(value);
  }
  setResponseStatus(code) {
    this.extensions.response.status(Number(code));
  }
  /** Sends an event to `$PUBLISHER_PROXY_ADDRESS`, as a structured CloudEvent. */
  async emitCloudEvent(type, source, data, attributes) {
    const address = env("PUBLISHER_PROXY_ADDRESS");
    if (!address) {
      throw new Error("cannot send events: set PUBLISHER_PROXY_ADDRESS in `[env]` of the manifest");
    }
    const kind = typeof data === "string" ? "text/plain" : "application/json";
    const id = crypto.randomUUID();
    const body = { specversion: "1.0", id, type, source, datacontenttype: kind, data, ...attributes };
    const headers = { "content-type": CLOUD_EVENT };
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${address} answered ${answer.status}`);
  }
}

/** Returns the event of a call, and the response the handler may write. */
export function eventOf(head, payload, sent) {
  const request = new Request(head, payload);
  const response = new Reply(sent);
  const event = new Event();
  const contentType = request.headers["content-type"];
  const attributes = {};
  if (mediaType(contentType) === CLOUD_EVENT) {
    event.data = structured(parse(payload), attributes);
  } else {
    event.data = decode(payload, contentType);
    if (request.headers["ce-type"] && request.headers["ce-source"]) {
      for (const name in request.headers) if (name.startsWith("ce-")) attributes[name] = request.headers[name];
    }
  }
  event["event-id"] = request.headers["event-id"] ?? attributes["ce-id"];
  event["event-type"] = request.headers["event-type"] ?? attributes["ce-type"];
  event["event-time"] = request.headers["event-time"] ?? attributes["ce-time"] ?? head.time;
  event["event-namespace"] = request.headers["event-namespace"] ?? attributes["ce-source"];
  event.extensions = { ...head.cause, request, response };
  Object.assign(event, attributes);
  return { event, response };
}

/** Splits a CloudEvent into its attributes, as `ce-NAME`, and its data. */
function structured(event, attributes) {
  if (event === null || typeof event !== "object" || Array.isArray(event)) {
    throw new TypeError("the content type says CloudEvent, but the payload is not a JSON object");
  }
  for (const name in event) if (name !== "data" && name !== "data_base64") attributes["ce-" + name] = event[name];
  if (event.data_base64 === undefined) return event.data ?? null;
  return decode(Buffer.from(event.data_base64, "base64"), event.datacontenttype ?? "application/octet-stream");
}

export function contextOf(head, previous, call, name, wire) {
  return {
    "function-name": name,
    ...fixed,
    invocation: head.invocation,
    attempt: head.attempt,
    poll: head.poll,
    trigger: head.trigger,
    deadline: head.deadline_ms ?? null,
    traceparent: head.traceparent,
    "keptn-context": head.context ?? null,
    previous,
    log: logger(wire, call),
  };
}

/** Returns `log(message, fields)`, with `log.debug`, `log.info`, `log.warning` and `log.error`. */
function logger(wire, call) {
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
}
