// The shim of runtime deno: serves the function whose file is the first argument, over HTTP if the second argument says so.
import { serveHttp } from "./http.mjs";
import { serve } from "../share/js/serve.mjs";

// The first deno whose `Socket` of node:net takes a descriptor. Scripts run with older ones, too.
const NEEDED = "2.7.12";

const [is, needed] = [Deno.version.deno, NEEDED].map((version) => version.split(/[.-]/).slice(0, 3).map(Number));
const differs = is.findIndex((part, index) => part !== needed[index]);
if (differs >= 0 && is[differs] < needed[differs]) {
  console.error(`a handler needs deno ${NEEDED} or newer, and this is ${Deno.version.deno}: run \`fndctl runtimes install deno\``);
  Deno.exit(1);
}
const [entry, how] = Deno.args;
await (how === "http" ? serveHttp(entry) : serve(entry));
