// The hook of `sdk.mjs` for `import`, in a node that is older than 22.15.
const url = new URL("sdk.cjs", import.meta.url).href;

export async function resolve(name, context, next) {
  if (name !== "sdk") return next(name, context);
  return next(name, context).catch(() => ({ url, format: "commonjs", shortCircuit: true }));
}
