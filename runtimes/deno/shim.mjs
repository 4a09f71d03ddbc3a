// The shim of runtime deno: serves the function whose file is the first argument.
import { serve } from "./lib/serve.mjs";

await serve(Deno.args[0]);
