// Reads the content of a call and its payload. Node and deno share this file.
import { bufferOf, host, textOf } from "./host.mjs";
import { wordAt } from "./wire.mjs";

export const CLOUD_EVENT = "application/cloudevents+json";
const strict = new TextDecoder("utf-8", { fatal: true });
const TEXT = /^text\/|^application\/(x-www-form-urlencoded|(ecma|java)script|xml)$|\+xml$/;

/** Splits an Invoke into head, payload and previous. */
export const parts = (function (content) {
  const begin = 4 + wordAt(content, 0);
  const head = JSON.parse(textOf(content.subarray(4, begin)));
  const end = begin + (head.data ?? 0);
  return {
    head,
    payload: head.data === undefined ? undefined : content.subarray(begin, end),
    previous: head.previous === undefined ? null : JSON.parse(textOf(content.subarray(end, end + head.previous))),
  };
});

export const mediaType = (text) => text?.split(";", 1)[0].trim().toLowerCase();

/**
 * Returns a payload by its content type: as JSON, text or bytes. Without content type: JSON if it parses, else text. `bytes`
 * returns the payload as a Buffer.
 */
export const decode = (function (payload, contentType, bytes = () => bufferOf(payload)) {
  if (payload === undefined) return null;
  const kind = mediaType(contentType);
  if (kind === "application/json" || kind === CLOUD_EVENT) return parse(payload);
  if (kind !== undefined) return TEXT.test(kind) ? textOf(payload) : bytes();
  let text;
  try {
    text = strict.decode(payload);
  } catch {
    return bytes();
  }
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
});

export function parse(payload) {
  if (!payload?.length) return null;
  try {
    return JSON.parse(textOf(payload));
  } catch (error) {
    throw new SyntaxError(`the content type says JSON, but the payload is not: ${error.message}`);
  }
}

/** Splits a CloudEvent into its attributes, as `ce-NAME`, and its data. */
export function structured(event, attributes) {
  if (event === null || typeof event !== "object" || Array.isArray(event)) {
    throw new TypeError("the content type says CloudEvent, but the payload is not a JSON object");
  }
  for (const name in event) if (name !== "data" && name !== "data_base64") attributes["ce-" + name] = event[name];
  if (event.data_base64 === undefined) return event.data ?? null;
  return decode(host.Buffer.from(event.data_base64, "base64"), event.datacontenttype ?? "application/octet-stream");
}
