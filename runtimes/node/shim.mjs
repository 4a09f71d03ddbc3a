// The shim of runtime node: serves the function whose file is the first argument.
import "./host.mjs";
import process from "node:process";
import { descriptor } from "../share/js/descriptor.mjs";
import { serve } from "../share/js/serve.mjs";
import { provide } from "./sdk.mjs";

const entry = process.argv[2];
// The function sees its own command line, without the shim.
process.argv.splice(1, 2, entry);
await serve(entry, descriptor, (url) => {
  provide(entry);
  return import(url);
});
