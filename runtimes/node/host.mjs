// Gives the files that node and deno share their parts of node.
import { Buffer } from "node:buffer";
import * as fs from "node:fs";
import process from "node:process";
import * as stream from "node:stream";
import { pathToFileURL } from "node:url";
import { use } from "../share/js/host.mjs";

// Older versions of node have no `getBuiltinModule`.
const loaded = { "node:fs": fs, "node:stream": stream };

use({
  env: (name) => process.env[name],
  exit: (code) => process.exit(code),
  pid: process.pid,
  url: (path) => pathToFileURL(path).href,
  Buffer,
  bufferOf: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
  builtin: (name) => loaded[name] ?? process.getBuiltinModule?.(name),
  stream,
});
