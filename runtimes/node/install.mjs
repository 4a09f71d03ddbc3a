// Installs the packages of functions: `node install.mjs fnd-build.json` (docs/dependencies.md).
//
// fnd runs it as the function `fnd-build`, in a directory with the files that list the packages. It leaves a tree in
// `$STATE_DIRECTORY/NAME` and tells by the file `.fnd-packages` that the tree is complete; NAME is that of the directory
// above. Exit 75: the network is the reason, and another attempt may succeed. Exit 65: it is not.

import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [TRANSIENT, FAILED] = [75, 65];
// Messages of npm about the network or the registry.
const NETWORK = /\b(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|EIDLETIMEOUT|E5\d\d)\b|socket hang up|network timeout/;

const request = realpathSync(process.argv[2]);
const code = dirname(request);
const wanted = JSON.parse(readFileSync(request, "utf8"));
const state = process.env.STATE_DIRECTORY;
// Each installation begins with nothing that an earlier one left, such as settings of npm.
const clear = () => readdirSync(state).forEach((entry) => rmSync(join(state, entry), { recursive: true, force: true }));
clear();
const [tree, home, tmp] = [basename(dirname(code)), "home", "tmp"].map((name) => join(state, name));
for (const directory of [tree, home, tmp]) mkdirSync(directory);

const env = {
  KUBELESS_INSTALL_VOLUME: tree,
  KUBELESS_DEPS_FILE: join(tree, "package.json"),
  KUBELESS_FUNC_NAME: process.env.FND_FUNCTION ?? "",
  npm_config_cache: join(process.env.CACHE_DIRECTORY, "npm"),
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  npm_config_progress: "false",
  npm_config_fetch_retries: "2",
  npm_config_fetch_retry_mintimeout: "1000",
  ...process.env,
  HOME: home,
  TMPDIR: tmp,
};

if (env.FND_OFFLINE) env.npm_config_offline = "true";

// A secret of `[build] secrets`: settings of npm, with the token of an index.
const npmrc = join(process.env.CREDENTIALS_DIRECTORY, "npmrc");
if (existsSync(npmrc)) env.npm_config_userconfig = npmrc;

function fail(why, status = FAILED) {
  // What a failed installation has left may fill the disk. The reason of the failure matters more than an error here.
  try {
    clear();
  } catch {}
  console.error(why);
  process.exit(status);
}

// Runs npm; shows its output, and ends with the reason if it fails.
async function npm(...options) {
  const beside = join(dirname(process.execPath), "npm");
  const program = [beside, "/usr/local/bin/npm", "/usr/bin/npm"].find(existsSync);
  if (!program) fail("there is no npm: `apt install npm`, or `sudo fndctl runtimes install node`, which has one");
  console.log(`+ npm ${options.join(" ")}`);
  // npm is a program of Node: it runs with the Node that runs the function.
  const child = spawn(process.execPath, [realpathSync(program), ...options], { cwd: tree, env, stdio: ["ignore", "pipe", "pipe"] });
  let [network, errors, rest] = [false, [], ""];
  const take = (text) => {
    process.stdout.write(text);
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      network ||= NETWORK.test(line);
      const error = /^npm (?:ERR!|error) (?!A complete log|code |errno |\s*$)(.*\S.*)$/.exec(line);
      if (error) errors.push(error[1].trim());
    }
  };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", take);
  const status = await new Promise((done) => child.on("close", done).on("error", (error) => fail(error.message)));
  // Of a script that failed, npm shows where it is and all that it printed: an error among that says more.
  const told = errors.find((line) => /^\w*Error: /.test(line)) ?? errors.find((line) => !/^(path|command) /.test(line));
  if (status !== 0) fail(told ?? `npm ended with ${status}`, network ? TRANSIENT : FAILED);
}

if (wanted.file) {
  const from = dirname(join(code, wanted.file));
  const names = ["package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"];
  for (const name of names.filter((name) => existsSync(join(from, name)))) copyFileSync(join(from, name), join(tree, name));
  const locked = existsSync(join(tree, "package-lock.json")) || existsSync(join(tree, "npm-shrinkwrap.json"));
  await npm(locked ? "ci" : "install", "--omit=dev", ...(locked ? [] : ["--no-package-lock"]));
} else {
  writeFileSync(join(tree, "package.json"), "{}\n");
  await npm("install", "--no-package-lock", "--no-save", "--", ...wanted.list);
}
// It may have a password for the registry, and every function with these packages can read the tree.
rmSync(join(tree, ".npmrc"), { force: true });
const installed = join(tree, "node_modules/.package-lock.json");
const { packages = {} } = existsSync(installed) ? JSON.parse(readFileSync(installed, "utf8")) : {};
const lines = Object.entries(packages).map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")} ${version}\n`);
writeFileSync(join(tree, ".fnd-packages"), [...new Set(lines)].sort().join(""));
console.log(`installed ${lines.length} package${lines.length === 1 ? "" : "s"}`);
