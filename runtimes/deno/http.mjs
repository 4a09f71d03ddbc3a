// Serves the `fetch` of a module's default export over HTTP. Descriptor 3 only says where, or why not.
import { Buffer } from "node:buffer";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { failure, fnd } from "./lib/answer.mjs";
import { ERROR, READY, Wire } from "./lib/wire.mjs";

// Requests at once; `[pool] concurrency` says how many of them fnd makes use of.
const CONCURRENCY = 1000;
const ours = new URL(".", import.meta.url).pathname;

/** Serves the file `entry` on a port of the loopback that the kernel chooses, until it is ended or fnd is gone. */
export async function serveHttp(entry) {
  globalThis.fnd = fnd;
  const wire = new Wire(() => {}, () => process.exit(0));
  try {
    const served = (await import(pathToFileURL(entry).href)).default;
    if (typeof served?.fetch !== "function") throw new Error("its default export has no function `fetch`");
    const onListen = ({ port }) =>
      wire.send(0, READY, Buffer.from(JSON.stringify({ protocol: 1, concurrency: CONCURRENCY, port })), Buffer.alloc(0));
    Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, (request, info) => served.fetch(request, info));
  } catch (error) {
    wire.json(0, ERROR, { ...failure(error, ours), kind: "error" });
    wire.end(() => process.exit(1));
  }
}
