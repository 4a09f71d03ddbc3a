// Names of media types, as `request.is`, `request.accepts` and `response.type` of express take them. Node and deno share
// this file.

const SHORT = {
  bin: "application/octet-stream",
  css: "text/css",
  csv: "text/csv",
  form: "application/x-www-form-urlencoded",
  gif: "image/gif",
  htm: "text/html",
  html: "text/html",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  js: "text/javascript",
  json: "application/json",
  md: "text/markdown",
  mjs: "text/javascript",
  multipart: "multipart/*",
  pdf: "application/pdf",
  png: "image/png",
  svg: "image/svg+xml",
  text: "text/plain",
  txt: "text/plain",
  urlencoded: "application/x-www-form-urlencoded",
  webp: "image/webp",
  xml: "application/xml",
  yaml: "text/yaml",
  zip: "application/zip",
};

/** Returns the media type of a short name, such as `html` or `.png`; `undefined` if the name is not known. */
export function known(name) {
  const key = name.replace(/^.*\./, "").toLowerCase();
  return Object.hasOwn(SHORT, key) ? SHORT[key] : undefined;
}

/** Returns a content type for a short name or a media type. */
export function contentType(name) {
  if (name.includes("/")) return name;
  const type = known(name) ?? SHORT.bin;
  return /^text\/|json$/.test(type) ? `${type}; charset=utf-8` : type;
}

/** Returns whether a media type is of a wanted one, in which a part may be `*`; `+json` means every type that ends with it. */
export function matches(type, wanted) {
  if (wanted.startsWith("+")) return type.endsWith(wanted);
  const full = wanted.includes("/") ? wanted : known(wanted);
  if (full === undefined) return false;
  const [[a, b = ""], [c, d = ""]] = [type, full.toLowerCase()].map((text) => text.split("/"));
  return (c === "*" || a === c) && (d === "*" || b === d || (d.startsWith("*+") && b.endsWith(d.slice(1))));
}

/** Returns the first of these types that an `Accept` header likes most; false if it likes none. */
export function preferred(accept, types) {
  const ranges = accept.split(",", 100).map((text) => {
    const [range, ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
    const q = parameters.find((parameter) => parameter.startsWith("q="));
    return { range, q: q === undefined ? 1 : Number(q.slice(2)) || 0 };
  });
  let best = false, most = 0;
  for (const type of types) {
    const full = type.includes("/") ? type.toLowerCase() : known(type) ?? "";
    // The most specific range counts: `text/html`, then `text/*`, then `*/*`.
    const stars = (range) => range.split("*").length;
    const fitting = ranges.filter(({ range }) => range.includes("/") && matches(full, range));
    const q = fitting.sort((a, b) => stars(a.range) - stars(b.range))[0]?.q ?? 0;
    if (q > most) [best, most] = [type, q];
  }
  return best;
}
