// The parts of node or deno that the other files here need, so that they import no module of node. Deno would take 15 ms to load those,
// as long as it takes to start. Node and deno share this file.
//
// A function that every start needs is written `const NAME = (function () {})`: V8 compiles a function in parentheses together
// with its module, and deno finds the code in its cache. That saves 0.8 ms of a start.

/** The parts that each of the two provides: `runtimes/node/host.mjs` and `runtimes/deno/host.mjs`. */
export let host;
/** The keys of a context that are the same in each call. */
export let fixed;

/**
 * Takes what node or deno provides; a shim calls this before it imports any other file from here.
 *
 * - `env(name)` returns a variable, or throws if the function may not read it.
 * - `exit(code)` ends the process, after the exit handlers of the function.
 * - `pid`, `url(path)`: the id of the process, and the URL of a file.
 * - `Buffer`: the class. In deno the first use loads it. `bufferOf(bytes)` makes one from bytes of a message.
 * - `builtin(name)` returns a module such as `node:fs`; `undefined` if it cannot.
 * - `stream`: the module `node:stream`, if it is loaded already.
 */
export const use = (function (given) {
  host = given;
  fixed = {
    timeout: Number(env("FUNC_TIMEOUT") || 180),
    runtime: env("FUNC_RUNTIME"),
    "memory-limit": env("FUNC_MEMORY_LIMIT"),
    // Kyma's; fnd sets neither variable.
    namespace: env("SERVICE_NAMESPACE"),
    "body-size-limit": number("FUNC_BODY_MB_LIMIT") ?? number("REQ_MB_LIMIT"),
  };
});

/** Returns a variable; without the permission to read it (deno) it counts as absent. */
export const env = (function (name) {
  try {
    return host.env(name);
  } catch {
    return undefined;
  }
});

function number(name) {
  const text = env(name);
  return text ? Number(text) : undefined;
}

const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns text as bytes in UTF-8. */
export const encode = (text) => encoder.encode(text);

/** Writes text into bytes, and returns how many it took. */
export const encodeInto = (text, bytes) => encoder.encodeInto(text, bytes).written;

/** Returns bytes in UTF-8 as text. */
export const textOf = (bytes) => decoder.decode(bytes);

/** Returns bytes of a message as a `Buffer`, which functions get. */
export const bufferOf = (bytes) => host.bufferOf(bytes);
