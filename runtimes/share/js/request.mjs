// The request of a call, with the names that express and Kubeless have for it. Node and deno share this file.
import { byName, forget, multipart, none, urlencoded } from "./form.mjs";
import { bufferOf, host, textOf } from "./host.mjs";
import { matches, preferred } from "./media.mjs";
import { mediaType, parse } from "./payload.mjs";
import { streams } from "./stream.mjs";

const NONE = new Uint8Array(0);
/** The property `body`: bytes, which become a Buffer when they are asked for, or what a parser of express has set. */
const BODY = {
  get() {
    return this.body = this.rawBody;
  },
  set(value) {
    Object.defineProperty(this, "body", { value, writable: true, configurable: true, enumerable: true });
  },
  configurable: true,
  enumerable: true,
};

/** The HTTP request of an invocation. An invocation without one gets a request that would have started it. */
export class Request {
  // Fields and no assignments: those would look for setters in the prototypes, as far as the one of streams.
  method;
  path;
  queryString;
  url;
  /** null without a route; `params` are the parameters of its pattern. */
  route;
  remote_addr;
  scheme;
  host;
  params;
  headers = {};
  #form;
  #payload;
  #buffer;
  #version;
  constructor(head, payload) {
    const made = head.request;
    this.method = made?.method ?? (payload === undefined ? "GET" : "POST");
    this.path = made?.path ?? "/";
    this.queryString = made?.query ?? "";
    this.url = this.path + (this.queryString && "?" + this.queryString);
    this.route = made?.route ?? null;
    this.remote_addr = made?.remote ?? null;
    this.scheme = made?.scheme ?? null;
    this.host = made?.host ?? null;
    this.params = Object.fromEntries(made?.params ?? []);
    for (const [name, value] of made?.headers ?? []) {
      this.headers[name] = Object.hasOwn(this.headers, name) ? this.headers[name] + ", " + value : value;
    }
    if (head.content_type) this.headers["content-type"] ??= head.content_type;
    // Parsers of express read no body without its length.
    if (payload !== undefined) this.headers["content-length"] ??= String(payload.length);
    this.#payload = payload ?? NONE;
    this.#version = made?.protocol;
    Object.defineProperty(this, "body", BODY);
  }

  get query() {
    return Object.fromEntries(Object.entries(byName(new URLSearchParams(this.queryString))));
  }
  get originalUrl() {
    return this.url;
  }
  get baseUrl() {
    return "";
  }
  get protocol() {
    return this.scheme ?? "http";
  }
  get secure() {
    return this.protocol === "https";
  }
  get hostname() {
    return (this.host ?? this.headers.host)?.replace(/:\d*$/, "");
  }
  get ip() {
    return this.remote_addr ?? undefined;
  }
  get ips() {
    return [];
  }
  get xhr() {
    return this.get("x-requested-with")?.toLowerCase() === "xmlhttprequest";
  }
  get httpVersion() {
    return this.#version?.replace(/^HTTP\//, "") ?? "1.1";
  }
  get rawHeaders() {
    return Object.entries(this.headers).flat();
  }
  /** The body as bytes, whatever `body` is. */
  get rawBody() {
    return this.#buffer ??= bufferOf(this.#payload);
  }

  get(name) {
    const lower = String(name).toLowerCase();
    if (lower === "referrer") return this.headers.referrer ?? this.headers.referer;
    return this.headers[lower];
  }
  header(name) {
    return this.get(name);
  }
  get_header(name) {
    return this.get(name);
  }

  /** Returns which of these types the body has, such as `json`, `multipart/*` or `+json`; false if none, null without body. */
  is(...types) {
    const type = mediaType(this.headers["content-type"]);
    if (this.headers["content-length"] === undefined) return null;
    if (!type) return false;
    const all = types.flat();
    const found = all.find((wanted) => matches(type, wanted));
    if (found === undefined) return all.length ? false : type;
    return /^\+|\*|^multipart$/.test(found) ? type : found;
  }
  /** Returns which of these types the caller likes most; false if it accepts none. */
  accepts(...types) {
    const accept = this.headers.accept;
    const all = types.flat();
    if (!all.length) return (accept ?? "*/*").split(",").map(mediaType);
    return accept === undefined ? all[0] : preferred(accept, all);
  }

  text() {
    return textOf(this.#payload);
  }
  json() {
    return parse(this.#payload);
  }
  /** The fields of a form, urlencoded or multipart: text, or an array where there are several; empty for other bodies. */
  get forms() {
    return this.#parsed().forms;
  }
  /** The files of a multipart form. */
  get files() {
    return this.#parsed().files;
  }
  /** Parsers of express put their files here. */
  set files(value) {
    Object.defineProperty(this, "files", { value, writable: true, configurable: true, enumerable: true });
  }
  #parsed() {
    if (this.#form === undefined) {
      const type = this.headers["content-type"], kind = mediaType(type);
      if (kind === "multipart/form-data") this.#form = multipart(this.#payload, type);
      else if (kind === "application/x-www-form-urlencoded") this.#form = urlencoded(this.#payload);
      else this.#form = none();
    }
    return this.#form;
  }

  /** The body of the stream is in memory already. */
  _read() {
    if (this.#payload.length) this.push(this.rawBody);
    this.push(null);
  }
  setTimeout() {
    return this;
  }

  /** Removes what a call has left in `TMPDIR`. */
  static done(request) {
    if (request.#form !== undefined) forget(request.#form);
  }
}

streams(Request, "Readable", (request) => host.builtin("node:stream").Readable.call(request));
