// Loads a function and serves it (runtimes/PROTOCOL.md). Node and deno share this file.
import { BadRequest, failure, fnd, loadFailure, result } from "./answer.mjs";
import { Cancellation, contextOf, done, eventOf, parsedBody } from "./event.mjs";
import { find } from "./find.mjs";
import { encode, host } from "./host.mjs";
import { parts } from "./payload.mjs";
import { CANCEL, ERROR, INVOKE, READY, STOP, Wire } from "./wire.mjs";

// Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
const CONCURRENCY = 1000;
const NO_CALLBACK = "the third argument is `sendResponse(body, status, headers)`, no `callback(error, result)`: return the result, or throw the error";

/**
 * Serves the file `entry` until fnd sends Stop or closes the connection. `open` opens the socket of a wire, and `load` imports a
 * module.
 */
export const serve = (async function (entry, open, load = (url) => import(url)) {
  globalThis.fnd = fnd;
  let found, stopping = false;
  const running = new Map();
  const stopped = () => wire.end(() => host.exit(0));
  const wire = new Wire(open, (kind, call, content) => {
    if (kind === STOP) {
      stopping = true;
      if (running.size === 0) stopped();
    } else if (kind === INVOKE) {
      const cancellation = new Cancellation();
      running.set(call, cancellation);
      invoke(call, content, cancellation).then(() => {
        running.delete(call);
        if (running.size === 0 && stopping) stopped();
      });
    } else if (kind === CANCEL) {
      running.get(call)?.cancel();
    }
  }, () => host.exit(0));

  async function invoke(call, content, cancellation) {
    try {
      const { head, payload, previous } = parts(content);
      const made = eventOf(head, payload);
      try {
        if (found.parsed) made.request.body = parsedBody(made.request, payload, made.event.data);
        const context = contextOf(head, previous, call, found.name, wire, made.request, cancellation);
        wire.result(call, ...await answer(found, made, context));
      } finally {
        done(made.request);
      }
    } catch (error) {
      if (error instanceof BadRequest) {
        wire.result(call, ...await result(error.message + "\n", { status: 400, headers: [] }));
      } else {
        wire.json(call, ERROR, failure(error));
      }
    }
  }

  try {
    found = find(await load(host.url(entry)));
  } catch (error) {
    wire.json(0, ERROR, loadFailure(error));
    wire.end(() => host.exit(1));
    return;
  }
  await rehearse();
  wire.json(0, READY, { protocol: 1, concurrency: CONCURRENCY, cancel: true });
});

/** Calls the handler and returns its answer: what it returned, or what it wrote. */
const answer = (async function ({ handler, writes }, { event, request, response }, context) {
  const sendResponse = (body, status, headers) => {
    const code = Number(status ?? 200);
    if (Number.isNaN(code)) return void response.destroy(new TypeError(NO_CALLBACK));
    if (status !== undefined) response.status(code);
    response.set(headers ?? {}).finish(body);
  };
  let value = writes ? handler(request, response, (error) => next(response, error)) : handler(event, context, sendResponse);
  const isPromise = typeof value?.then === "function";
  if (isPromise) value = await value;
  if (value === response) value = undefined;
  if (!response.writableEnded && !response.isPiped) {
    // A handler that takes Kyma's third argument or writes the response ends it itself, perhaps later. So does one that has
    // written and returns nothing; a promise says that it has written everything.
    const later = value === undefined && (writes || handler.length > 2 || (response.headersSent && !isPromise));
    if (!later) {
      if (!response.headersSent) return await result(value, response.head());
      response.finish(value);
    }
  }
  // In this order: content that was written may set a content type.
  value = await response.sent();
  return await result(value, response.head());
});

/** The third argument of a handler for express: no other handler follows. */
function next(response, error) {
  if (error) response.destroy(error instanceof Error ? error : new Error(String(error)));
  else response.sendStatus(404);
}

/** Makes a call without the handler, so that the engine compiles the code before the first caller waits for it. */
const rehearse = (async function () {
  const head = encode(JSON.stringify({ invocation: "", request: { headers: [["host", "fnd"]] } }));
  const call = parts(new Uint8Array([head.length, 0, 0, 0, ...head]));
  const { request, response } = eventOf(call.head, call.payload);
  contextOf(call.head, call.previous, 0, "", undefined, request);
  await result("", response.head());
});
