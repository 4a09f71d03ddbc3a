// Installs the dependencies of functions: `deno run install.mjs fnd-build.json` (docs/dependencies.md).
//
// fnd runs it as the function `fnd-build`, in a directory with `deno.json` and its like, if the function has them. It leaves
// a tree in `$STATE_DIRECTORY/NAME` and tells by the file `.fnd-packages` that the tree is complete; NAME is that of the
// directory above. The tree has a DENO_DIR and the lock of what is in it. Exit 75: the network is the reason, and another
// attempt may succeed. Exit 65: it is not.

import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [TRANSIENT, FAILED] = [75, 65];
// Messages of deno about the network or a registry.
const NETWORK = /error sending request|client error|dns error|timed out|connection (reset|refused|closed)|error decoding response body|(Bad response|status code|response status)\D{0,20}(5\d\d|429)|\b(5\d\d|429) /i;
// The registry that deno asks without settings.
const REGISTRY = "registry.npmjs.org";

const request = realpathSync(Deno.args[0]);
const code = dirname(request);
const wanted = JSON.parse(readFileSync(request, "utf8"));
const state = Deno.env.get("STATE_DIRECTORY");
// Each installation begins with nothing that an earlier one left, such as settings of npm.
const clear = () => readdirSync(state).forEach((entry) => rmSync(join(state, entry), { recursive: true, force: true }));
clear();
const [tree, home, work] = [basename(dirname(code)), "home", "work"].map((name) => join(state, name));
for (const directory of [tree, home, work]) mkdirSync(directory);
const lock = join(tree, "deno.lock");

function fail(why, status = FAILED) {
  // What a failed installation has left may fill the disk. The reason of the failure matters more than an error here.
  try {
    clear();
  } catch {}
  console.error(why);
  Deno.exit(status);
}

// Copies what says how imports are found to a directory of its own, which deno may write. Returns the options for it.
function project() {
  if (!wanted.file) return ["--no-config", `--lock=${lock}`];
  const from = dirname(join(code, wanted.file));
  if (existsSync(join(from, "package.json"))) copyFileSync(join(from, "package.json"), join(work, "package.json"));
  copyFileSync(join(code, wanted.file), join(work, basename(wanted.file)));
  const frozen = existsSync(join(from, "deno.lock"));
  if (frozen) copyFileSync(join(from, "deno.lock"), lock);
  return [`--config=${join(work, basename(wanted.file))}`, `--lock=${lock}`, ...(frozen ? ["--frozen"] : [])];
}

// Runs deno; shows its output, and ends with the reason if it fails.
async function deno(options, env) {
  console.log(`+ deno ${options.join(" ")}`);
  const child = new Deno.Command(Deno.execPath(), { args: options, cwd: work, env, stdin: "null", stdout: "inherit", stderr: "piped" }).spawn();
  let text = "";
  for await (const part of child.stderr.pipeThrough(new TextDecoderStream())) {
    text += part;
    await Deno.stdout.write(new TextEncoder().encode(part));
  }
  const { code: status } = await child.status;
  if (status === 0) return;
  const lines = text.split("\n");
  const first = lines.findIndex((line) => line.startsWith("error: "));
  // The first cause follows behind the error, as `    0: ...`; what follows behind that is about deno itself.
  const cause = /^\s+0: (?!<)(.*)$/.exec(lines[first + 1] ?? "")?.[1];
  const why = first < 0 ? `deno ended with ${status}` : [lines[first].slice("error: ".length).replace(/\.$/, ""), cause].filter(Boolean).join(": ");
  fail(why, NETWORK.test(text) ? TRANSIENT : FAILED);
}

// Moves the entries of a directory to another one; where both have one, its entries in turn.
function merge(from, to) {
  if (!existsSync(to)) return renameSync(from, to);
  if (!statSync(from).isDirectory()) return;
  for (const name of readdirSync(from)) merge(join(from, name), join(to, name));
  rmSync(from, { recursive: true });
}

// deno keeps packages by their registry. The function does not know the one of installations, so they get the usual place.
function unite(npm) {
  if (!existsSync(npm)) return;
  for (const name of readdirSync(npm).filter((name) => name !== REGISTRY)) {
    merge(join(npm, name), join(npm, REGISTRY));
    symlinkSync(REGISTRY, join(npm, name));
  }
}

// Returns a line `NAME VERSION` for each package, and for each wanted file of the web one with the beginning of its sum.
function packages() {
  const { npm = {}, jsr = {}, remote = {} } = existsSync(lock) ? JSON.parse(readFileSync(lock, "utf8")) : {};
  const names = [...Object.keys(npm), ...Object.keys(jsr)].map((key) => {
    const at = key.indexOf("@", 1);
    return `${key.slice(0, at)} ${key.slice(at + 1).split("_")[0]}\n`;
  });
  const files = wanted.list.filter((item) => item in remote).map((item) => `${item} ${remote[item].slice(0, 12)}\n`);
  return [...new Set([...names, ...files])].sort();
}

const options = ["cache", "--allow-import", "--node-modules-dir=none", "--vendor=false", ...project()];
const module = join(work, "fnd-imports.ts");
writeFileSync(module, wanted.list.map((item) => `import ${JSON.stringify(item)};\n`).join(""));
// A secret of `[build] secrets`: settings of npm, with the token of an index. deno reads them in the home directory.
const npmrc = join(Deno.env.get("CREDENTIALS_DIRECTORY"), "npmrc");
if (existsSync(npmrc)) symlinkSync(npmrc, join(home, ".npmrc"));
const cache = join(tree, "deno");
await deno([...options, module], { HOME: home, DENO_DIR: cache });
unite(join(cache, "npm"));
// What deno has noted about files, and translated ones: no function may write there, so deno does without them.
for (const name of readdirSync(cache)) if (name === "gen" || /_cache_v\d/.test(name)) rmSync(join(cache, name), { recursive: true });
if (!existsSync(lock)) writeFileSync(lock, '{ "version": "5" }\n');
const lines = packages();
writeFileSync(join(tree, ".fnd-packages"), lines.join(""));
console.log(lines.length === 1 ? `installed ${lines[0].trim()}` : `installed ${lines.length} packages`);
