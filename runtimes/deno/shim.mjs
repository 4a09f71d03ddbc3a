// The shim of runtime deno: serves the function whose file is the first argument. The second one is the path of fnd's socket, or
// `http` for a function that serves HTTP.
import "./host.mjs";
import { serve } from "../share/js/serve.mjs";
import { Connection } from "./connection.mjs";

// The first deno whose `Socket` of node:net takes a descriptor. Scripts run with older ones, too.
const NEEDED = "2.7.12";

function isOlder(version, than) {
  const [is, needed] = [version, than].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  const differs = is.findIndex((part, index) => part !== needed[index]);
  return differs >= 0 && is[differs] < needed[differs];
}

/** Only the socket itself fails like this. Without it nothing can be sent, so the last line of standard error becomes the message. */
function refused(error) {
  const version = Deno.version.deno;
  if (!isOlder(version, NEEDED)) throw error;
  console.error(`a handler needs deno ${NEEDED} or newer, and this is ${version}: run \`fndctl runtimes install deno\``);
  Deno.exit(1);
}

const [entry, how] = Deno.args;
// The function sees its own command line, without the socket.
Deno.args.length = Math.min(Deno.args.length, 1);
try {
  if (how === "http") await (await import("./http.mjs")).serveHttp(entry);
  else await serve(entry, how ? (wire) => new Connection(how, wire, refused) : (await import("./fallback.mjs")).open);
} catch (error) {
  refused(error);
}
