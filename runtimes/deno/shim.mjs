// The shim of runtime deno: serves the function whose file is the first argument, over HTTP if the second argument says so.

// The first deno whose `Socket` of node:net takes a descriptor. Scripts run with older ones, too.
const NEEDED = "2.7.12";

function isOlder(version, than) {
  const [is, needed] = [version, than].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  const differs = is.findIndex((part, index) => part !== needed[index]);
  return differs >= 0 && is[differs] < needed[differs];
}

const [entry, how] = Deno.args;
try {
  // Each loads modules of deno that the other does not need.
  if (how === "http") await (await import("./http.mjs")).serveHttp(entry);
  else await (await import("../share/js/serve.mjs")).serve(entry);
} catch (error) {
  // Only the socket itself fails here. Without it nothing can be sent, so the last line of standard error becomes the message.
  const version = Deno.version.deno;
  if (!isOlder(version, NEEDED)) throw error;
  console.error(`a handler needs deno ${NEEDED} or newer, and this is ${version}: run \`fndctl runtimes install deno\``);
  Deno.exit(1);
}
