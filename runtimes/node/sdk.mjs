// Lets a function import `sdk`, as in Kyma's newest Node runtimes. A package of that name beside the function wins.
import { readFileSync } from "node:fs";
import Module from "node:module";
import { sdk } from "../share/js/kyma.mjs";

const ours = new URL("sdk.cjs", import.meta.url);

/** Makes `sdk` known if the file names it: most functions do not, and a hook costs time at each start. */
export function provide(entry) {
  if (!/["']sdk["']/.test(readFileSync(entry, "utf8"))) return;
  Object.defineProperty(globalThis, Symbol.for("fnd.sdk"), { value: sdk });
  if (Module.registerHooks) return void Module.registerHooks({ resolve });
  // Older than node 22.15: one hook for `require` and one for `import`, which runs in a thread of its own.
  const before = Module._resolveFilename;
  Module._resolveFilename = function (name, ...rest) {
    return resolve(name, rest, () => before.call(this, name, ...rest), ours.pathname);
  };
  Module.register("./resolve.mjs", import.meta.url);
}

function resolve(name, context, next, found = { url: ours.href, format: "commonjs", shortCircuit: true }) {
  if (name !== "sdk") return next(name, context);
  try {
    return next(name, context);
  } catch {
    return found;
  }
}
