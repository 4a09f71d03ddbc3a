// Serves the `fetch` of a module's default export over HTTP. Descriptor 3 only reports the port, or why it cannot serve.
import { Buffer } from "node:buffer";
import { timingSafeEqual } from "node:crypto";
import process from "node:process";
import { fnd, loadFailure } from "../share/js/answer.mjs";
import { descriptor } from "../share/js/descriptor.mjs";
import { host } from "../share/js/host.mjs";
import { ERROR, READY, Wire } from "../share/js/wire.mjs";

// Requests that may be in flight at once; `[pool] concurrency` says how many fnd uses.
const CONCURRENCY = 1000;

/** Serves the file `entry` on a port of the loopback that the kernel chooses, until it is ended or fnd is gone. */
export async function serveHttp(entry) {
  globalThis.fnd = fnd;
  const wire = new Wire(descriptor, () => {}, () => process.exit(0));
  try {
    const served = (await import(host.url(entry))).default;
    if (typeof served?.fetch !== "function") throw new Error("the default export has no function `fetch`");
    const onListen = ({ port }) =>
      wire.json(0, READY, { protocol: 1, concurrency: CONCURRENCY, port });
    // Every user of this machine can reach the port, but only fnd knows the key.
    const key = Buffer.from(process.env.FND_WORKER_KEY ?? "");
    const isOurs = (request) => {
      const sent = Buffer.from(request.headers.get("fnd-worker-key") ?? "");
      return key.length > 0 && sent.length === key.length && timingSafeEqual(sent, key);
    };
    Deno.serve({ hostname: "127.0.0.1", port: 0, onListen }, (request, info) =>
      isOurs(request)
        ? served.fetch(request, info)
        : new Response("this function is called through fnd\n", { status: 403 }));
  } catch (error) {
    wire.json(0, ERROR, loadFailure(error));
    wire.end(() => process.exit(1));
  }
}
