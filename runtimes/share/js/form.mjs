// Reads the forms of a request: `application/x-www-form-urlencoded` and `multipart/form-data` (RFC 7578). Node and deno
// share this file.
//
// The body is in memory already, and `limits.body` bounds it. So files are views of it; a file goes to `TMPDIR` only when
// its `path` is asked for. The reader is strict: whatever a browser or curl would not send is a `BadRequest`.
import { BadRequest } from "./answer.mjs";
import { bufferOf, encode, env, host, textOf } from "./host.mjs";

// Few functions keep files of a form, so deno loads this module when one does.
const fs = () => host.builtin("node:fs");

const PARTS_MAX = 1000, HEAD_MAX = 8 << 10, NAME_MAX = 255, FIELDS_MAX = 10000;
const BOUNDARY = /^[0-9A-Za-z'()+_,./:=?\- ]{0,69}[0-9A-Za-z'()+_,./:=?-]$/;
// Spaces are spelled out: what `\s` and `trim` take for space differs between languages, and so would the answers.
// deno-lint-ignore no-control-regex
const HEADER = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)$/;
// One parameter of a header: a token, or a quoted string in which only the quote may be escaped.
const PARAMETER = /;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\[\s\S])*)"|([^ \t";]*))[ \t]*/y;
const CHARSETS = new Set(["utf-8", "utf8", "us-ascii", "iso-8859-1"]);
/** Files that were written so far: `TMPDIR` belongs to this worker, so a number makes a name of its own. */
let written = 0;
const LINE = encode("\r\n"), LINES = encode("\r\n\r\n"), DASHES = encode("--");

/** A file of a form. */
class File {
  #data;
  #path;
  constructor(rawFilename, type, data) {
    this.rawFilename = rawFilename;
    this.filename = baseName(rawFilename);
    this.content_type = this.type = type;
    this.#data = data;
  }
  get size() {
    return this.#data.length;
  }
  /** Returns the content. */
  read() {
    return this.#data;
  }
  text() {
    return this.#data.toString();
  }
  stream() {
    return new Blob([this.#data]).stream();
  }
  /** A file in `TMPDIR` with the content. It is removed when the call ends, unless the handler has moved it. */
  get path() {
    if (this.#path === undefined) {
      const path = `${env("TMPDIR") ?? "/tmp"}/upload-${host.pid}-${++written}`;
      fs().writeFileSync(path, this.#data, { flag: "wx", mode: 0o600 });
      this.#path = path;
    }
    return this.#path;
  }
  /** Writes the content to a file that does not exist yet. */
  save(path) {
    fs().writeFileSync(path, this.#data, { flag: "wx" });
  }
  static forget(file) {
    if (file.#path === undefined) return;
    try {
      fs().unlinkSync(file.#path);
    } catch {
      // The handler has moved it.
    }
  }
}

/** Removes the files of a form from `TMPDIR`. */
export function forget({ files }) {
  for (const found of Object.values(files)) [found].flat().forEach(File.forget);
}

/** Returns the last component of a file name, which a handler may use in a directory of its own. */
function baseName(raw) {
  const name = trimmed(raw.split(/[/\\]/).at(-1));
  return name === "" || name === "." || name === ".." ? "empty" : [...name].slice(-NAME_MAX).join("");
}

/** Returns a text without the spaces around it. A regular expression would take a time that grows with their square. */
function trimmed(text) {
  let from = 0, to = text.length;
  while (from < to && isSpace(text[from])) from++;
  while (to > from && isSpace(text[to - 1])) to--;
  return text.slice(from, to);
}

const isSpace = (char) => char === " " || char === "\t";

/** Returns values by name; several of one name are an array. The object has no prototype that a name could reach. */
export function byName(pairs) {
  const all = Object.create(null);
  for (const [name, value] of pairs) {
    if (!(name in all)) all[name] = value;
    else if (Array.isArray(all[name])) all[name].push(value);
    else all[name] = [all[name], value];
  }
  return all;
}

export const none = () => ({ forms: byName([]), files: byName([]) });

export function urlencoded(body) {
  const pairs = [...new URLSearchParams(textOf(body))];
  if (pairs.length > FIELDS_MAX) throw new BadRequest(`the form has more than ${FIELDS_MAX} fields`);
  return { forms: byName(pairs), files: byName([]) };
}

/** Returns the fields and the files of a body. */
export function multipart(payload, contentType) {
  const body = bufferOf(payload), mark = host.Buffer.from(`\r\n--${boundary(contentType)}`);
  const fields = [], files = [];
  // The line break before the first boundary is optional.
  const first = begins(body, mark, 0) ? mark.length : mark.length - 2;
  if (first !== mark.length && !begins(body, mark.subarray(2), 0)) {
    throw new BadRequest("the multipart body does not begin with its boundary");
  }
  let [at, isLast] = lineEnd(body, first);
  if (at < 0) throw new BadRequest("the first boundary of the multipart body is not a line of its own");
  while (!isLast) {
    if (fields.length + files.length === PARTS_MAX) {
      throw new BadRequest(`the multipart body has more than ${PARTS_MAX} parts`);
    }
    const headEnd = body.subarray(at, at + HEAD_MAX).indexOf(LINES) + at;
    if (headEnd < at) {
      throw new BadRequest(`the headers of part ${fields.length + files.length + 1} do not end within 8 KiB`);
    }
    const { name, filename, kind } = headers(body.subarray(at, headEnd));
    const [end, after, last] = contentEnd(body, headEnd + 2, mark);
    // An empty part ends at the line break of its headers.
    const data = body.subarray(headEnd + 4, Math.max(end, headEnd + 4));
    if (filename === undefined) fields.push([name, text(data, name, kind)]);
    else files.push([name, new File(filename, kind ?? "application/octet-stream", data)]);
    [at, isLast] = [after, last];
  }
  return { forms: byName(fields), files: byName(files) };
}

/** Returns where a content ends, where the next part begins, and whether there is none. */
function contentEnd(body, at, mark) {
  while (true) {
    const found = body.indexOf(mark, at);
    if (found < 0) throw new BadRequest("the multipart body ends before its last boundary");
    const [after, isLast] = lineEnd(body, found + mark.length);
    if (after >= 0) return [found, after, isLast];
    // The content has the boundary as the beginning of a longer line.
    at = found + 2;
  }
}

/** Returns the end of a boundary's line and whether it is the last one; -1 where it is none. */
function lineEnd(body, at) {
  if (begins(body, DASHES, at)) return [at, true];
  while (body[at] === 0x20 || body[at] === 0x09) at++;
  return begins(body, LINE, at) ? [at + 2, false] : [-1, false];
}

function begins(body, piece, at) {
  return body.subarray(at, at + piece.length).equals(piece);
}

function boundary(contentType) {
  const found = parameters(contentType).get("boundary") ?? "";
  if (!BOUNDARY.test(found)) throw new BadRequest("the content type `multipart/form-data` has no valid `boundary`");
  return found;
}

/** Returns name, file name and content type of a part. */
function headers(block) {
  const known = new Map();
  for (const line of decoded(block, "utf-8", "the headers of a part are not UTF-8").split("\r\n")) {
    const [, key, value] = HEADER.exec(line) ?? [];
    if (key === undefined) throw new BadRequest("a part has an invalid header line");
    const lower = key.toLowerCase();
    if (known.has(lower)) throw new BadRequest(`a part has the header \`${lower}\` twice`);
    known.set(lower, trimmed(value));
  }
  const disposition = known.get("content-disposition") ?? "";
  if (trimmed(disposition.split(";", 1)[0]).toLowerCase() !== "form-data") {
    throw new BadRequest("a part has no header `Content-Disposition: form-data`");
  }
  const found = parameters(disposition);
  if (!found.has("name")) throw new BadRequest("a part of the form has no name");
  const kind = known.get("content-type") || undefined;
  if (/^multipart\//i.test(kind)) throw new BadRequest("a part of the form is a multipart body itself");
  return { name: found.get("name"), filename: found.get("filename"), kind };
}

/** Returns the parameters of a header. */
function parameters(header) {
  const found = new Map();
  PARAMETER.lastIndex = header.indexOf(";");
  while (PARAMETER.lastIndex >= 0 && PARAMETER.lastIndex < header.length) {
    const match = PARAMETER.exec(header);
    if (match === null) throw new BadRequest("a header has invalid parameters");
    const name = match[1].toLowerCase();
    if (found.has(name)) throw new BadRequest(`a header has the parameter \`${match[1]}\` twice`);
    // Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
    found.set(name, match[2]?.replaceAll('\\"', '"').replaceAll("%22", '"') ?? match[3]);
    if (PARAMETER.lastIndex === header.length) break;
  }
  return found;
}

function text(data, name, kind) {
  const charset = ((kind && parameters(kind).get("charset")) ?? "utf-8").toLowerCase();
  const shown = `the field \`${name.slice(0, 64)}\``;
  if (!CHARSETS.has(charset)) {
    throw new BadRequest(`${shown} has the character set \`${charset.slice(0, 64)}\`, which is not supported`);
  }
  return decoded(data, charset, `${shown} is not ${charset}`);
}

function decoded(bytes, charset, otherwise) {
  // TextDecoder takes these two for windows-1252.
  if (charset === "iso-8859-1") return bytes.toString("latin1");
  if (charset === "us-ascii" && bytes.some((byte) => byte > 0x7f)) throw new BadRequest(otherwise);
  try {
    return new TextDecoder(charset, { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new BadRequest(otherwise);
  }
}
