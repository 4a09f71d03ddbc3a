// Variables of a worker. Node and deno share this file.
import process from "node:process";

/** Returns a variable; without the permission to read it (deno) it counts as absent. */
export function env(name) {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}

function number(name) {
  const text = env(name);
  return text ? Number(text) : undefined;
}

/** The keys of a context that are the same in each call. */
export const fixed = {
  timeout: Number(env("FUNC_TIMEOUT") || 180),
  runtime: env("FUNC_RUNTIME"),
  "memory-limit": env("FUNC_MEMORY_LIMIT"),
  // Kyma's; fnd sets neither variable.
  namespace: env("SERVICE_NAMESPACE"),
  "body-size-limit": number("FUNC_BODY_MB_LIMIT") ?? number("REQ_MB_LIMIT"),
};
