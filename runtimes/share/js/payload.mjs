// Reads the content of a call and its payload. Node and deno share this file.
import { Buffer } from "node:buffer";

export const CLOUD_EVENT = "application/cloudevents+json";
const TEXT = /^text\/|^application\/(x-www-form-urlencoded|(ecma|java)script|xml)$|\+xml$/;

/** Splits an Invoke into head, payload and previous. */
export function parts(content) {
  const begin = 4 + content.readUInt32LE(0);
  const head = JSON.parse(content.toString("utf8", 4, begin));
  const end = begin + (head.data ?? 0);
  return {
    head,
    payload: head.data === undefined ? undefined : content.subarray(begin, end),
    previous: head.previous === undefined ? null : JSON.parse(content.toString("utf8", end, end + head.previous)),
  };
}

export const mediaType = (text) => text?.split(";", 1)[0].trim().toLowerCase();

/** Returns a payload by its content type: as JSON, text or bytes. Without content type: JSON if it parses, else text. */
export function decode(payload, contentType) {
  if (payload === undefined) return null;
  const kind = mediaType(contentType);
  if (kind === "application/json" || kind === CLOUD_EVENT) return parse(payload);
  if (kind !== undefined) return TEXT.test(kind) ? payload.toString() : payload;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(payload);
  } catch {
    return payload;
  }
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function parse(payload) {
  if (!payload?.length) return null;
  try {
    return JSON.parse(payload.toString());
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
  return decode(Buffer.from(event.data_base64, "base64"), event.datacontenttype ?? "application/octet-stream");
}
