// Gives the files that node and deno share their parts of deno.
import { use } from "../share/js/host.mjs";
import { BUFFER } from "../share/js/wire.mjs";

use({
  env: (name) => Deno.env.get(name),
  exit(code) {
    // Only `process.exit` runs handlers of `process.on("exit")`, which exist if that module is loaded. Loading it would take
    // 10 ms. Where deno does not tell, it is loaded.
    const internals = Deno[Deno.internal];
    if (internals?.core && !internals.dispatchProcessExitEvent) Deno.exit(code);
    globalThis.process.exit(code);
  },
  pid: Deno.pid,
  /** As `pathToFileURL`: these characters would mean something else in a URL. */
  url(path) {
    const escaped = path.replace(/[%\\?#\n\r\t]/g, encodeURIComponent);
    return new URL(escaped, path.startsWith("/") ? "file:///" : `file://${Deno.cwd()}/`).href;
  },
  // Both globals load their module when they are read for the first time.
  get Buffer() {
    return globalThis.Buffer;
  },
  bufferOf(bytes) {
    // A function may give away the memory of its Buffer (`postMessage`). Small messages share theirs with others.
    const own = bytes.buffer.byteLength > BUFFER ? bytes : bytes.slice();
    return globalThis.Buffer.from(own.buffer, own.byteOffset, own.byteLength);
  },
  builtin: (name) => globalThis.process.getBuiltinModule(name),
});
