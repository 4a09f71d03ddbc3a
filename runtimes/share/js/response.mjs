// The response that a handler may write itself, with the names that express has for it. Node and deno share this file.
import { BadAnswer, bytesOf } from "./answer.mjs";
import { Head } from "./head.mjs";
import { fixed, host } from "./host.mjs";
import { streams } from "./stream.mjs";
import { joined } from "./wire.mjs";

/** What is written piece by piece is kept up to this size. So a stream without end fails its call before memory is full. */
const WRITTEN_MAX = Math.floor((Number(fixed["memory-limit"]) || 256 << 20) / 4);
/** What a body is without a content type of its own: in express, `send` takes text for HTML. */
const TEXT = "text/plain; charset=utf-8", HTML = "text/html; charset=utf-8", BYTES = "application/octet-stream";

export class Reply extends Head {
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
    this.locals = value;
    return value;
  }
  set locals(value) {
    Object.defineProperty(this, "locals", { value, writable: true, configurable: true });
  }

  send(body) {
    if (body === null || this.statusCode === 204 || this.statusCode === 304) body = undefined;
    if (typeof body === "string" && !this.hasHeader("content-type")) this.set("content-type", HTML);
    return this.finish(body);
  }
  json(body) {
    if (!this.hasHeader("content-type")) this.set("content-type", "application/json");
    return this.finish(JSON.stringify(body) ?? "");
  }
  sendStatus(code) {
    const text = host.builtin("node:http")?.STATUS_CODES[code] ?? String(code);
    return this.status(code).type("txt").send(text);
  }
  redirect(code, url = code) {
    if (typeof code !== "number") [code, url] = [typeof url === "number" ? url : 302, code];
    return this.status(code).location(url).type("txt").send(`Redirecting to ${this.get("location")}\n`);
  }
  end(piece, ...rest) {
    // Without a stream no listener waits.
    if (!this.#hasBegun && !rest.length && isPiece(piece)) return this.finish(piece);
    writable().prototype.end.call(this, piece, ...rest);
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
    if (this.#hasBegun) writable().prototype.end.call(this);
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

  #take(piece, encoding) {
    this.#isText &&= typeof piece === "string";
    const bytes = typeof piece === "string" ? host.Buffer.from(piece, encoding) : piece;
    const size = this.#size + bytes.length;
    if (size > WRITTEN_MAX) {
      return new BadAnswer(`the handler wrote more than ${WRITTEN_MAX} bytes, a quarter of \`limits.memory\``);
    }
    this.#written ??= new Uint8Array(1 << 10);
    // Doubled, so that many small pieces cost no more than their bytes.
    if (size > this.#written.length) {
      const larger = new Uint8Array(Math.max(size, Math.min(2 * this.#written.length, WRITTEN_MAX)));
      larger.set(this.#written);
      this.#written = larger;
    }
    this.#written.set(bytes, this.#size);
    this.#size = size;
  }
  #done(error) {
    if (!this.#isDone) this.#error = error;
    this.#isDone = true;
    if (this.#waiting === undefined) return;
    try {
      if (this.#error !== undefined) throw this.#error;
      this.#waiting.resolve(this.#joined());
    } catch (why) {
      this.#waiting.reject(why);
    }
  }
  /** Returns the whole body as bytes; `undefined` if there is none. */
  #joined() {
    const written = this.#written?.subarray(0, this.#size);
    if (this.#value === undefined) return this.#typed(written, this.#isText ? TEXT : BYTES);
    const [bytes, type] = bytesOf(this.#value);
    if (written === undefined) return this.#typed(bytes, type);
    return this.#typed(joined([written, bytes]), this.#isText && type !== BYTES ? TEXT : BYTES);
  }
  #typed(bytes, type) {
    if (bytes !== undefined && !this.hasHeader("content-type")) this.set("content-type", type);
    return bytes;
  }

  static begin(response) {
    response.#hasBegun = true;
    // A piece of text stays text.
    writable().call(response, { decodeStrings: false });
    const sources = response.#sources = new Set();
    response.on("pipe", (source) => sources.add(source));
    response.on("unpipe", (source) => sources.delete(source));
    // Who writes after the end, or has no listener for errors, does not end the worker and the other calls.
    response.on("error", (error) => response.#done(error));
    response.on("close", () => response.#done(new Error("the response was destroyed before its end")));
    if (response.#isEnded) writable().prototype.end.call(response);
  }
}

/** The class, which deno loads when a response is used as a stream. */
const writable = () => host.builtin("node:stream").Writable;

const isPiece = (piece) => piece === undefined || typeof piece === "string" || piece instanceof Uint8Array;

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

streams(Reply, "Writable", Reply.begin);
