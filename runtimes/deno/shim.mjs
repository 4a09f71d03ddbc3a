// The shim of runtime deno: serves the function whose file is the first argument. The second one is the path of fnd's socket, or
// `http` for a function that serves HTTP.
import "./host.mjs";
import { serve } from "../share/js/serve.mjs";
import { Connection } from "./connection.mjs";

/** Without the socket nothing can be sent, so the last line of standard error becomes the message. */
function refused(error) {
  console.error(`cannot connect to fnd: ${error.message}`);
  Deno.exit(1);
}

const [entry, how] = Deno.args;
// The function sees its own command line, without the socket.
Deno.args.length = Math.min(Deno.args.length, 1);
if (how === "http") await (await import("./http.mjs")).serveHttp(entry);
else await serve(entry, how ? (wire) => new Connection(how, wire, refused) : (await import("./inherited.mjs")).open);
