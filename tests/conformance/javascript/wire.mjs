// Frames and the connection of deno, with a socket that takes and gives as few bytes as it likes. Runs in node and in deno:
// `wire.mjs RUNTIMES`. It ends with 0 if everything is as expected.
const runtimes = (globalThis.Deno?.args ?? process.argv.slice(2)).at(-1);
const at = (path) => `file://${runtimes}/${path}`;
const { use, textOf } = await import(at("share/js/host.mjs"));
use({ env: () => undefined });
const { BODY, ERROR, INVOKE, LOG, RESULT, STOP, Wire, joined } = await import(at("share/js/wire.mjs"));
const { Connection } = await import(at("deno/connection.mjs"));

const MORE = 1, OPTIONAL = 2, FRAME_MAX = 256 << 10;
let checks = 0;

function equal(is, expected, what) {
  checks++;
  const [a, b] = [is, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${what}: ${a?.slice(0, 300)} instead of ${b?.slice(0, 300)}`);
}

function throws(text, action) {
  let message = "";
  try {
    action();
  } catch (error) {
    message = error.message;
  }
  equal(message.includes(text), true, `"${message}" says "${text}"`);
}

/** Bytes that differ from their neighbours. */
const byteAt = (n, seed) => (n * 31 + (n >> 8) + seed) & 255;
const data = (size, seed = 1) => Uint8Array.from({ length: size }, (_, n) => byteAt(n, seed));
const isData = (bytes, seed) => bytes.every((byte, n) => byte === byteAt(n, seed));

function frame(kind, call, content = new Uint8Array(0), flags = 0) {
  const bytes = new Uint8Array(16 + content.length), view = new DataView(bytes.buffer);
  view.setUint32(0, content.length, true);
  bytes[4] = kind;
  bytes[5] = flags;
  view.setBigUint64(8, BigInt(call), true);
  bytes.set(content, 16);
  return bytes;
}

/** Takes frames apart, independently of the wire. */
function frames(bytes) {
  const found = [], view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let at = 0; at < bytes.length;) {
    const size = view.getUint32(at, true), content = bytes.slice(at + 16, at + 16 + size);
    equal(view.getUint16(at + 6, true), 0, "reserved");
    found.push({ kind: bytes[at + 4], flags: bytes[at + 5], call: Number(view.getBigUint64(at + 8, true)), content });
    at += 16 + size;
  }
  return found;
}

/** Returns a wire whose messages and written bytes are collected. */
function wire() {
  const messages = [], written = [];
  const made = new Wire(
    () => ({ write: (bytes) => written.push(bytes) }),
    (kind, call, content) => messages.push([kind, call, content]),
    () => {},
  );
  return { made, messages, written };
}

/** Gives bytes to a wire as deno reads them: into its room. */
function read(made, bytes) {
  for (let at = 0; at < bytes.length;) {
    const room = made.room(), piece = bytes.subarray(at, at + room.length);
    room.set(piece);
    made.filled(piece.length);
    at += piece.length;
  }
}

const shown = (messages) => messages.map(([kind, call, content]) => [kind, call, [...content].join()]);
const WAYS = [(made, bytes) => made.take(bytes.slice()), read];

// A few frames, cut at every place, and at every two places that are not far from each other.
const all = joined([
  frame(INVOKE, 1, data(5)),
  frame(200, 9, data(3), OPTIONAL),
  frame(INVOKE, 2, data(7), MORE),
  frame(INVOKE, 2 ** 40 + 3, data(2)),
  frame(BODY, 2, data(4, 9), MORE),
  frame(BODY, 2),
  frame(STOP, 0),
]);
const expected = shown([[INVOKE, 1, data(5)], [INVOKE, 2 ** 40 + 3, data(2)], [INVOKE, 2, joined([data(7), data(4, 9)])], [STOP, 0, []]]);
for (const give of WAYS) {
  for (let first = 0; first <= all.length; first++) {
    for (const second of [first, first + 1, first + 15, first + 17, all.length]) {
      const { made, messages } = wire();
      for (const piece of [all.subarray(0, first), all.subarray(first, second), all.subarray(second)]) {
        if (piece.length) give(made, piece);
      }
      equal(shown(messages), expected, `cut at ${first} and ${second}`);
    }
  }
  const { made, messages } = wire();
  for (const byte of all) give(made, Uint8Array.of(byte));
  equal(shown(messages), expected, "byte by byte");
}

// Large frames among small ones; what a receiver has got stays as it is while more is read.
for (const give of WAYS) {
  for (const step of [1000, 65536, 65537, 1 << 22]) {
    const { made, messages } = wire();
    const sizes = [0, 10, 5000, 65520, 65521, 70000, FRAME_MAX, 30, FRAME_MAX - 1, ...Array(300).fill(900)];
    const stream = joined(sizes.map((size, n) => frame(INVOKE, n + 1, data(size, n))));
    for (let at = 0; at < stream.length; at += step) give(made, stream.subarray(at, at + step));
    equal(messages.map(([, call, content]) => [call, content.length]), sizes.map((size, n) => [n + 1, size]), "sizes");
    equal(messages.every(([, call, content]) => isData(content, call - 1)), true, "contents");
  }
}
{
  // The rest of a large frame is read to its place.
  const { made, messages } = wire();
  const bytes = frame(INVOKE, 1, data(FRAME_MAX));
  read(made, bytes.subarray(0, 20));
  equal(made.room().length, bytes.length - 20, "room for the rest");
  read(made, bytes.subarray(20));
  equal(messages[0][2].length, FRAME_MAX, "a large frame");
}
{
  // A function takes the memory of a large frame.
  const { made, messages } = wire();
  read(made, frame(INVOKE, 1, data(FRAME_MAX)));
  structuredClone(null, { transfer: [messages[0][2].buffer] });
  read(made, frame(INVOKE, 2, data(9)));
  equal(messages[1][2].length, 9, "a message after it");
}
for (const give of WAYS) {
  throws("invalid frame", () => give(wire().made, frame(INVOKE, 1, data(FRAME_MAX + 1))));
  throws("invalid frame", () => give(wire().made, Uint8Array.from(all, (byte, n) => n === 6 ? 1 : byte)));
  throws("a frame of type 200", () => give(wire().made, frame(200, 1)));
}

// Messages that are sent: JSON alone, JSON and a body, in one frame or several.
for (const text of ["", "short", "\u00e4\u20ac\u{1f600}\ud800", "\u20ac".repeat(1300), "x".repeat(300000)]) {
  const { made, written } = wire();
  made.json(2 ** 33 + 1, LOG, { text });
  const found = frames(joined(written));
  const bytes = joined(found.map(({ content }) => content));
  equal(JSON.parse(textOf(bytes)), { text }, "a JSON message");
  equal(found.map(({ kind, call }) => [kind, call]), found.map((_, n) => [n ? BODY : LOG, 2 ** 33 + 1]), "its frames");
}
for (const size of [0, 1, 3000, 4096, 5000, FRAME_MAX - 60, FRAME_MAX, FRAME_MAX + 1, 3 * FRAME_MAX + 7]) {
  const { made, written } = wire();
  made.json(1, ERROR, { message: "before" });
  made.result(7, { data: size }, data(size));
  made.json(8, LOG, { message: "after" });
  const [before, ...rest] = frames(joined(written)), after = rest.pop();
  equal([before.call, after.call], [1, 8], "the order of messages");
  const content = joined(rest.map(({ content }) => content)), head = new DataView(content.buffer, content.byteOffset).getUint32(0, true);
  equal(JSON.parse(textOf(content.subarray(4, 4 + head))), { data: size }, "the head of a result");
  equal(isData(content.subarray(4 + head), 1), true, "its body");
  equal(content.length, 4 + head + size, "its size");
  equal(rest.map(({ kind, flags }) => [kind, flags]), rest.map((_, n) => [n ? BODY : RESULT, n < rest.length - 1 ? MORE : 0]), "its frames");
}
{
  // More small messages than the shared buffer holds, all kept until later.
  const { made, written } = wire();
  for (let n = 0; n < 3000; n++) made.json(n, LOG, { n });
  equal(frames(joined(written)).every(({ call, content }, n) => call === n && JSON.parse(textOf(content)).n === n), true, "many messages");
}

/** A connection of deno that writes at most `most` bytes at once, and reads what is in `incoming`, then waits. */
class Slow {
  written = [];
  writes = 0;
  constructor(most, incoming = [], isEnded = false) {
    Object.assign(this, { most, incoming, isEnded });
  }
  async write(bytes) {
    this.writes++;
    const copy = bytes.slice(0, this.most);
    await null;
    // Nothing may change while it is written.
    equal(copy.every((byte, n) => byte === bytes[n]), true, "bytes being written");
    this.written.push(copy);
    return copy.length;
  }
  async read(room) {
    const piece = this.incoming.shift();
    if (piece === undefined) return this.isEnded ? null : new Promise(() => {});
    if (piece instanceof Error) throw piece;
    room.set(piece);
    return piece.length;
  }
}

/** Opens a wire over such a connection. */
function connected(slow, onRefused = () => {}) {
  const state = { ends: 0, messages: [] };
  Object.defineProperty(globalThis, "Deno", {
    value: { connect: async () => typeof slow === "string" ? Promise.reject(new Error(slow)) : slow },
    configurable: true,
  });
  const made = new Wire(
    (wire) => new Connection("/socket", wire, onRefused),
    (...message) => state.messages.push(message),
    () => state.ends++,
  );
  return Object.assign(state, { made });
}

const deno = globalThis.Deno;
for (const most of [1, 7, 100, 1 << 20]) {
  const slow = new Slow(most, [all.subarray(0, 30), all.subarray(30)]), state = connected(slow);
  // Before there is a connection, at once, and while a write is under way; a large message among them.
  state.made.json(1, LOG, { n: 1 });
  state.made.result(2, { data: 3 }, data(3));
  await new Promise((then) => setTimeout(then));
  if (most > 1) state.made.result(3, { data: 70000 }, data(70000));
  for (let call = 4; call < 50; call++) state.made.json(call, LOG, { call });
  await new Promise((then) => state.made.end(then));
  const calls = frames(joined(slow.written)).map(({ call }) => call);
  equal(calls, [1, 2, ...(most > 1 ? [3] : []), ...Array.from({ length: 46 }, (_, n) => n + 4)], "the order of what was written");
  if (most === 1 << 20) equal(slow.writes, 3, "messages that wait are written at once");
  equal(shown(state.messages), expected, "what was read");
  equal(state.ends, 0, "the connection goes on");
}
for (const slow of [new Slow(9, [], true), new Slow(9, [new Error("reset")])]) {
  const state = connected(slow);
  await new Promise((then) => setTimeout(then));
  equal(state.ends, 1, "the end of the connection");
}
{
  const slow = new Slow(9);
  slow.write = async () => {
    throw new Error("broken pipe");
  };
  const state = connected(slow);
  state.made.json(1, LOG, {});
  await new Promise((then) => setTimeout(then));
  equal(state.ends, 1, "a write that fails");
  equal(await new Promise((then) => connected("refused", (error) => then(error.message))), "refused", "no connection");
}
Object.defineProperty(globalThis, "Deno", { value: deno, configurable: true });
console.log(`${checks} checks`);
