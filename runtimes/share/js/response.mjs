// The response that a handler may write itself, with the names that express has for it. Node and deno share this file.
import { Buffer } from "node:buffer";
import process from "node:process";
import { Writable } from "node:stream";
import { BadAnswer, bytesOf } from "./answer.mjs";
import { setCookie } from "./cookie.mjs";
import { contentType } from "./media.mjs";
import { streams } from "./stream.mjs";
import { fixed } from "./variables.mjs";

/** What is written piece by piece is kept up to this size. So a stream without end fails its call before memory is full. */
const WRITTEN_MAX = Math.floor((Number(fixed["memory-limit"]) || 256 << 20) / 4);
/** What a body is without a content type of its own: in express, `send` takes text for HTML. */
const TEXT = "text/plain; charset=utf-8", HTML = "text/html; charset=utf-8", BYTES = "application/octet-stream";
const NONE = Buffer.alloc(0);

export class Reply {
  #status;
  #headers;
  #value;
  // What was written, and how much of the buffer that is.
  #written;
  #size = 0;
  #isText = true;
  // Ended: nothing more can be written. Done: everything that was written is there, or the reason why not.
  #isEnded = false;
  #isDone = false;
  #error;
  #waiting;
  #sources;
  #hasBegun = false;

  get statusCode() {
    return this.#status ?? 200;
  }
  set statusCode(code) {
    this.#status = typeof code === "string" ? Number(code) : code;
  }
  status(code) {
    this.statusCode = code;
    return this;
  }

  set(name, value) {
    if (typeof name === "object") {
      for (const [key, text] of Object.entries(name)) this.set(key, text);
    } else {
      this.#headers ??= new Map();
      this.#headers.set(String(name).toLowerCase(), Array.isArray(value) ? value.map(String) : String(value));
    }
    return this;
  }
  header(name, value) {
    return typeof name === "string" && value === undefined ? this.get(name) : this.set(name, value);
  }
  setHeader(name, value) {
    return this.set(name, value);
  }
  setHeaders(headers) {
    for (const [name, value] of headers) this.set(name, value);
    return this;
  }
  get(name) {
    return this.#headers?.get(String(name).toLowerCase());
  }
  getHeader(name) {
    return this.get(name);
  }
  getHeaders() {
    return Object.assign(Object.create(null), Object.fromEntries(this.#headers ?? []));
  }
  getHeaderNames() {
    return [...this.#headers?.keys() ?? []];
  }
  hasHeader(name) {
    return this.get(name) !== undefined;
  }
  removeHeader(name) {
    this.#headers?.delete(String(name).toLowerCase());
  }
  append(name, value) {
    const before = this.get(name);
    return this.set(name, before === undefined ? value : [before, value].flat());
  }
  appendHeader(name, value) {
    return this.append(name, value);
  }
  vary(name) {
    return this.set("vary", [this.get("vary") ?? [], name].flat().join(", "));
  }
  type(name) {
    return this.set("content-type", contentType(String(name)));
  }
  contentType(name) {
    return this.type(name);
  }
  location(url) {
    return this.set("location", String(url).replace(/[^\x21-\x7e]+/g, encodeURIComponent));
  }
  attachment(name) {
    const quoted = name === undefined ? "" : `; filename="${String(name).replace(/^.*[/\\]/, "").replace(/["\r\n]/g, "_")}"`;
    return this.set("content-disposition", "attachment" + quoted);
  }
  cookie(name, value, options) {
    return this.append("set-cookie", setCookie(name, value, options));
  }
  clearCookie(name, options) {
    return this.cookie(name, "", { ...options, maxAge: undefined, expires: new Date(1) });
  }
  writeHead(code, message, headers = typeof message === "object" ? message : undefined) {
    this.statusCode = code;
    const pairs = Array.isArray(headers) && !Array.isArray(headers[0])
      ? headers.flatMap((name, at) => at % 2 ? [] : [[name, headers[at + 1]]])
      : Object.entries(headers ?? {});
    return this.setHeaders(pairs);
  }
  flushHeaders() {}
  setTimeout() {
    return this;
  }

  get headersSent() {
    return this.#isEnded || this.#written !== undefined;
  }
  get writableEnded() {
    return this.#isEnded;
  }
  get finished() {
    return this.#isEnded;
  }
  get locals() {
    const value = {};
    Object.defineProperty(this, "locals", { value, writable: true, configurable: true });
    return value;
  }

  send(body) {
    if (body === null || this.#status === 204 || this.#status === 304) body = undefined;
    if (typeof body === "string" && !this.hasHeader("content-type")) this.set("content-type", HTML);
    return this.finish(body);
  }
  json(body) {
    if (!this.hasHeader("content-type")) this.set("content-type", "application/json");
    return this.finish(JSON.stringify(body) ?? "");
  }
  sendStatus(code) {
    const text = process.getBuiltinModule?.("node:http").STATUS_CODES[code] ?? String(code);
    return this.status(code).type("txt").send(text);
  }
  redirect(code, url = code) {
    if (typeof code !== "number") [code, url] = [typeof url === "number" ? url : 302, code];
    return this.status(code).location(url).type("txt").send(`Redirecting to ${this.get("location")}\n`);
  }
  end(piece, ...rest) {
    // Without a stream no listener waits.
    if (!this.#hasBegun && !rest.length && isPiece(piece)) return this.finish(piece);
    Writable.prototype.end.call(this, piece, ...rest);
    this.#isEnded = true;
    return this;
  }
  _write(piece, encoding, then) {
    then(this.#take(piece, encoding));
  }
  _final(then) {
    this.#isEnded = true;
    this.#done();
    then();
  }

  /** Ends the response with a value that a handler may return; it follows what was written. */
  finish(value) {
    if (this.#isEnded) return this;
    this.#value = value;
    this.#isEnded = true;
    if (this.#hasBegun) Writable.prototype.end.call(this);
    else this.#done();
    return this;
  }
  /** Whether something that is not at its end is piped into the response. */
  get isPiped() {
    return this.#sources !== undefined && this.#sources.size > 0;
  }
  /** Returns what was sent, once it is complete. */
  sent() {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      if (this.#isDone) this.#done();
    });
  }
  /** Returns the status, if the handler has set one, and the headers. */
  head() {
    const headers = [];
    this.#headers?.forEach((value, name) => {
      if (typeof value === "string") headers.push([name, value]);
      else for (const text of value) headers.push([name, text]);
    });
    return { status: this.#status, headers };
  }

  #take(piece, encoding) {
    this.#isText &&= typeof piece === "string";
    const bytes = typeof piece === "string" ? Buffer.from(piece, encoding) : piece;
    const size = this.#size + bytes.length;
    if (size > WRITTEN_MAX) {
      return new BadAnswer(`the handler wrote more than ${WRITTEN_MAX} bytes, a quarter of \`limits.memory\``);
    }
    this.#written ??= Buffer.alloc(1 << 10);
    // Doubled, so that many small pieces cost no more than their bytes.
    if (size > this.#written.length) {
      this.#written = Buffer.concat([this.#written], Math.max(size, Math.min(2 * this.#written.length, WRITTEN_MAX)));
    }
    this.#written.set(bytes, this.#size);
    this.#size = size;
  }
  #done(error) {
    if (!this.#isDone) this.#error = error;
    this.#isDone = true;
    if (this.#waiting === undefined) return;
    if (this.#error === undefined) this.#waiting.resolve(this.#joined());
    else this.#waiting.reject(this.#error);
  }
  #joined() {
    if (this.#written === undefined) return this.#value;
    const written = this.#written.subarray(0, this.#size);
    const [bytes, type] = this.#value === undefined ? [NONE, TEXT] : bytesOf(this.#value);
    if (!this.hasHeader("content-type")) this.set("content-type", this.#isText && type !== BYTES ? TEXT : BYTES);
    return bytes.length ? Buffer.concat([written, bytes]) : written;
  }

  static begin(response) {
    response.#hasBegun = true;
    // A piece of text stays text.
    Writable.call(response, { decodeStrings: false });
    const sources = response.#sources = new Set();
    response.on("pipe", (source) => sources.add(source));
    response.on("unpipe", (source) => sources.delete(source));
    // Who writes after the end, or has no listener for errors, does not end the worker and the other calls.
    response.on("error", (error) => response.#done(error));
    response.on("close", () => response.#done(new Error("the response was destroyed before its end")));
    if (response.#isEnded) Writable.prototype.end.call(response);
  }
}

const isPiece = (piece) => piece === undefined || typeof piece === "string" || piece instanceof Uint8Array;

streams(Reply, Writable, Reply.begin);

/** What express has and fnd has not: it fails with the reason. */
const WITHOUT = {
  download: "pipe `fs.createReadStream(path)` into the response",
  format: "choose by `request.accepts(...)`",
  jsonp: "use `json`",
  links: "set the header `Link`",
  render: "render the text yourself and `send` it",
  sendFile: "pipe `fs.createReadStream(path)` into the response",
};
for (const [name, instead] of Object.entries(WITHOUT)) {
  Reply.prototype[name] = () => {
    throw new Error(`fnd has no \`response.${name}\`: ${instead}`);
  };
}
