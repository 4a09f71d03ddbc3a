// Finds the handler of a module and its form. A form that cannot be served is refused here, when the module is loaded, and
// not when somebody calls it. Node and deno share this file.
import { env } from "./host.mjs";

/** Returns the handler of a module, its name and its form. `module.exports` of CommonJS is its default export. */
export const find = (function (module) {
  const main = module.default;
  const wanted = env("FUNC_HANDLER");
  for (const name of wanted ? [wanted] : ["default", "handler", "main"]) {
    for (const owner of [module, main]) {
      const found = owner?.[name];
      if (typeof found === "function") return { handler: found, name, ...formOf(found, name) };
    }
  }
  refuseServer(main);
  const what = wanted
    ? `the module exports no function \`${wanted}\`, which \`handler\` of the manifest names`
    : "the module exports no function, neither as default nor as `handler` or `main`";
  const others = functions(module).concat(functions(main)).slice(0, 5);
  throw new Error(others.length ? `${what}; it exports ${[...new Set(others)].join(", ")}` : what);
});

function functions(owner) {
  if (owner === null || typeof owner !== "object") return [];
  return Object.keys(owner).filter((name) => typeof owner[name] === "function").map((name) => `\`${name}\``);
}

/**
 * Returns the form of a handler: whether it gets the request and writes the response, as in express and in Kyma from its
 * `nodejs26` on, and whether the body of its request is parsed, as for every `main` of Kyma.
 */
const formOf = (function (handler, name) {
  refuseServer(handler);
  const text = Function.prototype.toString.call(handler);
  if (/^class\b/.test(text)) {
    throw new Error(`\`${name}\` is a class: export a function \`(event, context)\``);
  }
  if (/Generator/.test(Object.prototype.toString.call(handler))) {
    throw new Error(`\`${name}\` is a generator: export a function that returns its result, or \`pipe\` a stream into the response`);
  }
  const names = parameters(text);
  const isNew = Number(/^node(?:js)?(\d+)$/.exec(env("FUNC_RUNTIME") ?? "")?.[1]) >= 26;
  const writes = /^_?(res|response)$/.test(names[1] ?? "") ||
    (isNew && names.length > 1 && names[0] !== "event" && names[1] !== "context");
  return { writes, parsed: writes || name === "main" };
});

/** An application of express and the like listens on a port itself. */
const refuseServer = (function (exported) {
  if (typeof exported?.listen !== "function") return;
  throw new Error(
    "the module exports a server (`listen`), not a handler: let it listen on `$PORT` and write `[http_server]` into the manifest",
  );
});

/** Returns the names of the first parameters of a function, from its text; a pattern counts as a name. */
const parameters = (function (text) {
  const arrow = /^(?:async\s*)?([\w$]+)\s*=>/.exec(text);
  if (arrow) return [arrow[1]];
  const names = [""];
  let depth = 0;
  for (const char of text.slice(0, 1000).replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, "")) {
    if (depth > 0 && "([{".includes(char) || depth === 0 && char === "(") depth++;
    else if (depth > 0 && ")]}".includes(char)) depth--;
    if (depth === 1 && char === ",") names.push("");
    else if (depth > 0) names[names.length - 1] += char;
    if (depth === 0 && char === ")") break;
  }
  // Its default is no part of a name.
  return names.map((name) => /^[\s(]*([\w$]*)/.exec(name)[1]);
});
