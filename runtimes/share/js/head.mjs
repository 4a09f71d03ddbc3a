// Status and headers of a response, with the names that express and Node have for them. Node and deno share this file.
import { contentType } from "./media.mjs";

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// deno-lint-ignore no-control-regex
const UNSAFE = /[\x00-\x1f\x7f;]/;
const SAME_SITE = { true: "Strict", strict: "Strict", lax: "Lax", none: "None" };

export class Head {
  #status;
  #headers;

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
  // There is nothing to flush, and fnd watches the time.
  flushHeaders() {}
  setTimeout() {
    return this;
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
}

/** Returns the text of a cookie (RFC 6265, section 4.1), with the options of express. */
function setCookie(name, value, options = {}) {
  if (!NAME.test(name)) throw new TypeError(`\`${name}\` is no name for a cookie`);
  if (options.signed) throw new TypeError("fnd signs no cookies: sign the value yourself");
  const text = typeof value === "object" ? "j:" + JSON.stringify(value) : String(value);
  const parts = [`${name}=${(options.encode ?? encodeURIComponent)(text)}`];
  const expires = options.maxAge === undefined || options.maxAge === null
    ? options.expires
    : new Date(Date.now() + Number(options.maxAge));
  if (options.maxAge !== undefined && options.maxAge !== null) parts.push(`Max-Age=${Math.floor(options.maxAge / 1000)}`);
  if (options.domain) parts.push(`Domain=${options.domain}`);
  parts.push(`Path=${options.path ?? "/"}`);
  if (expires) parts.push(`Expires=${expires.toUTCString()}`);
  if (options.httpOnly) parts.push("HttpOnly");
  if (options.secure) parts.push("Secure");
  if (options.partitioned) parts.push("Partitioned");
  if (options.sameSite) {
    const mode = SAME_SITE[String(options.sameSite).toLowerCase()];
    if (mode === undefined) throw new TypeError(`a cookie cannot have sameSite \`${options.sameSite}\``);
    parts.push(`SameSite=${mode}`);
  }
  const wrong = parts.find((part) => UNSAFE.test(part));
  if (wrong !== undefined) throw new TypeError(`the cookie \`${name}\` has a character that a header cannot have`);
  return parts.join("; ");
}
