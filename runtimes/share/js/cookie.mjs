// Writes the header `Set-Cookie`, with the options of express. Node and deno share this file.

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// deno-lint-ignore no-control-regex
const UNSAFE = /[\x00-\x1f\x7f;]/;
const SAME_SITE = { true: "Strict", strict: "Strict", lax: "Lax", none: "None" };

/** Returns the text of a cookie (RFC 6265, section 4.1). */
export function setCookie(name, value, options = {}) {
  if (!NAME.test(name)) throw new TypeError(`\`${name}\` is no name for a cookie`);
  if (options.signed) throw new TypeError("fnd signs no cookies: sign the value yourself");
  const text = typeof value === "object" ? "j:" + JSON.stringify(value) : String(value);
  const parts = [`${name}=${(options.encode ?? encodeURIComponent)(text)}`];
  const expires = options.maxAge === undefined || options.maxAge === null
    ? options.expires
    : new Date(Date.now() + Number(options.maxAge));
  if (options.maxAge !== undefined && options.maxAge !== null) parts.push(`Max-Age=${Math.floor(options.maxAge / 1000)}`);
  if (options.domain) parts.push(`Domain=${options.domain}`);
  parts.push(`Path=${options.path ?? "/"}`);
  if (expires) parts.push(`Expires=${expires.toUTCString()}`);
  if (options.httpOnly) parts.push("HttpOnly");
  if (options.secure) parts.push("Secure");
  if (options.partitioned) parts.push("Partitioned");
  if (options.sameSite) {
    const mode = SAME_SITE[String(options.sameSite).toLowerCase()];
    if (mode === undefined) throw new TypeError(`a cookie cannot have sameSite \`${options.sameSite}\``);
    parts.push(`SameSite=${mode}`);
  }
  const wrong = parts.find((part) => UNSAFE.test(part));
  if (wrong !== undefined) throw new TypeError(`the cookie \`${name}\` has a character that a header cannot have`);
  return parts.join("; ");
}
