// Status and headers of a response, with the names that express and Node have for them. Node and deno share this file.
import { setCookie } from "./cookie.mjs";
import { contentType } from "./media.mjs";

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
