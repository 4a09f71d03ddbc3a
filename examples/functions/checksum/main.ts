// POST any bytes. `hex.ts` is its own; `node:crypto` comes with deno.
import { createHash } from "node:crypto";
import { hex } from "./hex.ts";

// deno-lint-ignore no-explicit-any
export async function handler(event: any) {
  const body: Uint8Array = event.extensions.request.body;
  const digest = await crypto.subtle.digest("SHA-256", new Uint8Array(body));
  return { bytes: body.length, sha256: hex(new Uint8Array(digest)), md5: createHash("md5").update(body).digest("hex") };
}
