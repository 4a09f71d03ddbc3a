// Loads a function and serves it over descriptor 3 (runtimes/PROTOCOL.md). Node and deno share this file.
import { Buffer } from "node:buffer";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { BadRequest, failure, fnd, loadFailure, result } from "./answer.mjs";
import { contextOf, done, env, eventOf, parts } from "./event.mjs";
import { ERROR, INVOKE, READY, RESULT, STOP, Wire } from "./wire.mjs";

// Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
const CONCURRENCY = 1000;
const NONE = Buffer.alloc(0);

/** Serves the file `entry` until fnd sends Stop or closes the connection. */
export async function serve(entry) {
  globalThis.fnd = fnd;
  let handler, name, writes, stopping = false, running = 0;
  const stopped = () => wire.end(() => process.exit(0));
  const wire = new Wire((kind, call, content) => {
    if (kind === STOP) {
      stopping = true;
      if (running === 0) stopped();
    } else if (kind === INVOKE) {
      running++;
      invoke(call, content).then(() => {
        if (--running === 0 && stopping) stopped();
      });
    }
  }, () => process.exit(0));

  async function invoke(call, content) {
    try {
      const { head, payload, previous } = parts(content);
      wire.send(call, RESULT, ...await answer(head, payload, previous, call));
    } catch (error) {
      if (error instanceof BadRequest) {
        wire.send(call, RESULT, ...await result(error.message + "\n", { statusCode: 400, headers: {} }));
      } else {
        wire.json(call, ERROR, failure(error));
      }
    }
  }

  async function answer(head, payload, previous, call) {
    let sent;
    const written = new Promise((resolve) => sent = resolve);
    const { event, response } = eventOf(head, payload, sent);
    const context = contextOf(head, previous, call, name, wire);
    const sendResponse = (body, status, headers) => {
      if (status !== undefined) response.status(Number(status));
      response.set(headers ?? {}).send(body);
    };
    try {
      let value = writes ? handler(requestOf(event), response) : handler(event, context, sendResponse);
      if (typeof value?.then === "function") value = await value;
      // The handler takes Kyma's third argument or its `res`: the answer is the value sent with it.
      const waits = writes || handler.length > 2 || response.headersSent;
      if (waits && (value === undefined || value === response)) value = (await written).value;
      return await result(value, response);
    } finally {
      done(event);
    }
  }

  try {
    [handler, name] = find(await import(pathToFileURL(entry).href));
    writes = isExpress(handler);
  } catch (error) {
    wire.json(0, ERROR, loadFailure(error));
    wire.end(() => process.exit(1));
    return;
  }
  await rehearse();
  wire.send(0, READY, Buffer.from(`{"protocol":1,"concurrency":${CONCURRENCY}}`), NONE);
}

/** Makes a call without the handler, so that the engine compiles the code before the first caller waits for it. */
async function rehearse() {
  const head = Buffer.from(JSON.stringify({ invocation: "", request: { headers: [["host", "fnd"]] } }));
  const size = Buffer.alloc(4);
  size.writeUInt32LE(head.length);
  const call = parts(Buffer.concat([size, head]));
  const { response } = eventOf(call.head, call.payload, () => {});
  contextOf(call.head, call.previous, 0, "", undefined);
  await result("", response);
}

/** Returns whether a handler has the form of express, as Kyma's newest functions have: by the names of its parameters. */
function isExpress(handler) {
  return /^[^(]*\(\s*_?(req|request)\s*,\s*(res|response)\s*[,)]/.test(Function.prototype.toString.call(handler));
}

/** Returns the request as express has it: its body is the data. */
function requestOf(event) {
  const request = event.extensions.request;
  return Object.create(request, {
    body: { value: event.data, enumerable: true },
    forms: { get: () => request.forms },
    files: { get: () => request.files },
  });
}

/** Returns the handler of a module and its name. `module.exports` of CommonJS is its default export. */
function find(module) {
  const main = module.default;
  const wanted = env("FUNC_HANDLER");
  for (const name of wanted ? [wanted] : ["default", "handler", "main"]) {
    for (const owner of [module, main]) {
      const found = owner?.[name];
      if (typeof found === "function") return [found, name];
    }
  }
  throw new Error(
    wanted
      ? `the module exports no function \`${wanted}\`, which \`handler\` of the manifest names`
      : "the module exports no function, neither as default nor as `handler` or `main`",
  );
}
