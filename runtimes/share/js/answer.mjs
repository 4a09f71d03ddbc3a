// Answers of a shim: results and failures. Node and deno share this file.
import { encode } from "./host.mjs";

// Where the shims are: node/, deno/ and this directory.
const SHIMS = new URL("../..", import.meta.url).pathname;
const TEXT_MAX = 16 << 10, STACK_MAX = 32 << 10;
const NONE = new Uint8Array(0);

class TransientException extends Error {
  name = "TransientException";
}
class FailedException extends Error {
  name = "FailedException";
}
class ExecuteAgainException extends Error {
  name = "ExecuteAgainException";
  constructor(message, data) {
    super(message);
    this.data = data;
  }
}
/** Says that the caller sent something invalid: the call is answered with status 400 and this text. */
export class BadRequest extends Error {
  name = "BadRequest";
}
/** Raised if the value that the handler returned cannot be sent. */
export class BadAnswer extends Error {}

const KINDS = {
  TransientException: "transient",
  FailedException: "failed",
  ExecuteAgainException: "execute-again",
};

/** The global `fnd` that functions use. */
export const fnd = { TransientException, FailedException, ExecuteAgainException, BadRequest };

/** Returns head and body of a Result. `set` has the status and the headers that were set on the response. */
export const result = (async function (value, set) {
  const head = {};
  let { status, headers } = set;
  if (isWebResponse(value)) {
    status = value.status;
    headers = [...headers, ...value.headers];
    value = value.body === null ? undefined : new Uint8Array(await value.arrayBuffer());
  } else if (isResponse(value)) {
    status = value.status;
    headers = [...headers, ...Object.entries(value.headers ?? {})];
    value = value.body;
  }
  if (status !== undefined) {
    if (!isStatus(status)) throw new BadAnswer(`the handler answered with status ${status}: expected 200 to 599`);
    head.status = status;
  }
  let bytes = NONE;
  if (value !== undefined) {
    [bytes, head.content_type] = bytesOf(value);
    head.data = bytes.length;
  }
  const kept = [];
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    // Of an array each item is a header of its own, as several cookies are.
    for (const text of Array.isArray(value) ? value : [value]) {
      // A web Response treats every body as text, so the content type of JSON and bytes is set here.
      if (lower === "content-type") head.content_type = String(text);
      else if (lower !== "content-length") kept.push([lower, String(text)]);
    }
  }
  if (kept.length) head.headers = kept;
  return [head, bytes];
});

/** The tag is compared first: naming the class would load all of fetch, which takes 5 ms of a worker's first call. */
function isWebResponse(value) {
  return Object.prototype.toString.call(value) === "[object Response]" && value instanceof Response;
}

function isStatus(value) {
  return Number.isInteger(value) && value >= 200 && value < 600;
}

/** An object is data, unless it has only the keys of a response. */
const isResponse = (function (value) {
  if (value === null || typeof value !== "object" || !isStatus(value.status)) return false;
  const keys = Object.keys(value);
  return keys.length > 1 && keys.every((key) => key === "status" || key === "headers" || key === "body");
});

/** Returns a value as bytes, and its content type. */
export const bytesOf = (function (value) {
  if (typeof value === "string") return [encode(value), "text/plain; charset=utf-8"];
  if (value instanceof ArrayBuffer) return [new Uint8Array(value), "application/octet-stream"];
  if (ArrayBuffer.isView(value)) {
    return [new Uint8Array(value.buffer, value.byteOffset, value.byteLength), "application/octet-stream"];
  }
  let text;
  try {
    text = value instanceof Map || value instanceof Set ? undefined : JSON.stringify(value);
  } catch (error) {
    throw new BadAnswer(`the handler returned a value that is not text, bytes or JSON: ${error.message}`);
  }
  if (text === undefined) {
    const kind = value?.constructor?.name ?? typeof value;
    throw new BadAnswer(`the handler returned a value that is not text, bytes or JSON: a ${kind}`);
  }
  return [encode(text), "application/json"];
});

/** Returns an Error. Its stack has no lines of the shims. */
export function failure(error) {
  const kind = kindOf(error);
  const isError = error instanceof Error;
  const message = (isError ? error.message || error.name : spelled(error)).slice(0, TEXT_MAX);
  if (kind === "execute-again") {
    try {
      return { kind, message, data: JSON.parse(JSON.stringify(error.data ?? {})) };
    } catch (why) {
      return { kind: "bad-answer", message: `execute again: the data is not JSON: ${why.message}` };
    }
  }
  if (kind !== "error" || !isError) return { kind, message };
  const lines = String(error.stack).split("\n");
  const stack = lines.filter((line) => !line.includes(SHIMS) && !/^\s+at .*(\(|\s)(node:|ext:)/.test(line));
  return { kind, message, stack: stack.join("\n").slice(0, STACK_MAX) };
}

/** What to do about an error of a module that belongs to another kind of modules, or to Kyma. */
const HINTS = [
  [/Cannot find (module|package) '[^./]/, "list it in `dependencies` of the manifest or of `package.json`"],
  [/Unexpected token 'export'|import statement outside/, 'name the file `.mjs`, or write `"type": "module"` into `package.json`'],
  [/^(module|exports|require) is not defined/, 'name the file `.cjs`, or write `export default` and `import`'],
  [/(Relative import path|Import) "sdk"/, '`sdk` of Kyma is there with `runtime = "node"`'],
];

/** Returns the Error of a module that cannot be loaded. Its message is one line, with the place if the engine names it. */
export function loadFailure(error) {
  const { message, stack } = failure(error);
  // Node begins the stack of a syntax error with the place, deno ends the message with it.
  const place = (/^(\/.*:\d+)\n/.exec(stack) ?? /\n +at (file:\S+:\d+)/.exec(message))?.[1];
  const [line] = message.split("\n");
  const advice = HINTS.find(([said]) => said.test(line))?.[1];
  return { kind: "error", message: line + (place ? ` (${place})` : "") + (advice ? `; ${advice}` : ""), stack };
}

/** Returns a thrown value that is no Error as text. */
function spelled(value) {
  if (value === null || typeof value !== "object") return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function kindOf(error) {
  if (error instanceof BadAnswer) return "bad-answer";
  if (error === null || typeof error !== "object") return "error";
  if (Object.hasOwn(KINDS, error.name)) return KINDS[error.name];
  for (let known = error; known !== null; known = Object.getPrototypeOf(known)) {
    // Compared by name, since a function may define exceptions of its own.
    const name = known.constructor?.name;
    if (Object.hasOwn(KINDS, name)) return KINDS[name];
  }
  return "error";
}
