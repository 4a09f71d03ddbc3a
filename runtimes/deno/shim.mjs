// The shim of runtime deno: serves the function whose file is the first argument, over HTTP if the second argument says so.
import { serveHttp } from "./http.mjs";
import { serve } from "../share/js/serve.mjs";

const [entry, how] = Deno.args;
await (how === "http" ? serveHttp(entry) : serve(entry));
