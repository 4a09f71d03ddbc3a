// Serves a handler over a connection to fnd.
import { serve } from "../share/js/serve.mjs";
import { Connection } from "./connection.mjs";

/** Serves the file `entry` over the socket at `path`. */
export async function handle(entry, path) {
  await serve(entry, path ? (wire) => new Connection(path, wire, refused) : (await import("./inherited.mjs")).open);
}

/** Without the socket nothing can be sent, so the last line of standard error becomes the message. */
function refused(error) {
  console.error(`cannot connect to fnd: ${error.message}`);
  Deno.exit(1);
}
