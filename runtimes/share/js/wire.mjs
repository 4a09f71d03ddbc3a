// Frames of the protocol (runtimes/PROTOCOL.md). The socket is given: this file only makes frames and takes them apart.
// Node and deno share this file.
import { encode, encodeInto } from "./host.mjs";

export const READY = 1, INVOKE = 2, BODY = 3, RESULT = 4, ERROR = 5, LOG = 6, STOP = 7, CANCEL = 8;
const FRAME_MAX = 256 << 10, HEADER = 16, MORE = 1, OPTIONAL = 2, WORD = 2 ** 32;
/** Bytes are read and written through buffers of this size; what is larger gets a buffer of its own. */
export const BUFFER = 64 << 10;
/** A message up to this size goes into the shared buffer, and less room than this is not read into. */
const SMALL = 4 << 10;

/**
 * One end of a connection. `open(wire)` returns the socket, with `write(bytes)` and `end(then)`. The socket passes on what
 * comes, by `room` and `filled` or by `take`, and calls `onEnd()` when the connection has ended.
 *
 * `onMessage(type, call, content)` is called for each complete message. The content is the receiver's: nothing is read
 * into it later.
 */
export class Wire {
  // Bytes that were read and are no complete frame yet: `#bytes` between `#from` and `#to`.
  #bytes = new Uint8Array(0);
  #from = 0;
  #to = 0;
  #begun = new Map();
  // The buffer for small messages. What is before `#at` was given to the socket and stays as it is.
  #view = new DataView(new ArrayBuffer(0));
  #out = new Uint8Array(0);
  #at = 0;
  #onMessage;
  #socket;

  constructor(open, onMessage, onEnd) {
    this.#onMessage = onMessage;
    this.onEnd = onEnd;
    this.#socket = open(this);
  }

  /** Returns the place for the next bytes. For a large frame that is the rest of a buffer of its size. */
  room() {
    const rest = this.#to - this.#from, free = this.#bytes.length - this.#to;
    const frame = rest < HEADER ? 0 : HEADER + wordAt(this.#bytes, this.#from);
    if (free === 0 || (frame ? this.#from + frame > this.#bytes.length : free < SMALL)) {
      const larger = new Uint8Array(Math.max(frame, BUFFER));
      // A function may have taken the memory of a large frame that it got.
      if (rest) larger.set(this.#bytes.subarray(this.#from, this.#to));
      this.#bytes = larger;
      this.#from = 0;
      this.#to = rest;
    }
    return this.#to === 0 ? this.#bytes : this.#bytes.subarray(this.#to);
  }

  /** Takes the first bytes of the room that `room` returned. */
  filled(count) {
    this.#to += count;
    const bytes = this.#bytes;
    let at = this.#from;
    while (this.#to - at >= HEADER) {
      const size = wordAt(bytes, at), content = at + HEADER;
      if (size > FRAME_MAX || bytes[at + 6] !== 0 || bytes[at + 7] !== 0) throw new Error("fnd sent an invalid frame");
      if (this.#to - content < size) break;
      // Calls are counted from 1: they stay below 2 to the 53 for 285 years of a million a second.
      const call = wordAt(bytes, at + 8) + wordAt(bytes, at + 12) * WORD, kind = bytes[at + 4], flags = bytes[at + 5];
      // First, in case that the receiver throws.
      this.#from = at = content + size;
      this.#frame(kind, flags, call, bytes.subarray(content, at));
    }
  }

  /** Takes bytes that were read into a buffer of their own. */
  take(bytes) {
    if (this.#from === this.#to) {
      this.#bytes = bytes;
      this.#from = this.#to = 0;
      return this.filled(bytes.length);
    }
    for (let at = 0; at < bytes.length;) {
      const room = this.room(), piece = bytes.subarray(at, at + room.length);
      room.set(piece);
      at += piece.length;
      this.filled(piece.length);
    }
  }

  #frame(kind, flags, call, content) {
    if (kind !== INVOKE && kind !== BODY && kind !== STOP && kind !== CANCEL) {
      if (flags & OPTIONAL) return;
      throw new Error(`fnd sent a frame of type ${kind}`);
    }
    if (kind === BODY) {
      const begun = this.#begun.get(call);
      begun.pieces.push(content);
      if (flags & MORE) return;
      this.#begun.delete(call);
      this.#onMessage(begun.kind, call, joined(begun.pieces));
    } else if (flags & MORE) {
      this.#begun.set(call, { kind, pieces: [content] });
    } else {
      this.#onMessage(kind, call, content);
    }
  }

  /** Sends a message that is one JSON value. */
  json(call, kind, value) {
    this.#send(call, kind, JSON.stringify(value));
  }

  /** Sends a Result. */
  result(call, head, body) {
    this.#send(call, RESULT, JSON.stringify(head), body);
  }

  /** Sends JSON text; with a body, its length comes first and the body last. */
  #send(call, kind, json, body) {
    const before = body === undefined ? 0 : 4;
    // A character takes at most three bytes.
    const most = HEADER + before + 3 * json.length + (body?.length ?? 0);
    if (most > SMALL) return this.#sendLarge(call, kind, encode(json), body);
    if (this.#at + most > this.#out.length) {
      this.#out = new Uint8Array(BUFFER);
      this.#view = new DataView(this.#out.buffer);
      this.#at = 0;
    }
    const start = this.#at, content = start + HEADER;
    let end = content + before;
    end += encodeInto(json, this.#out.subarray(end, start + most));
    if (body !== undefined) {
      this.#view.setUint32(content, end - content - 4, true);
      this.#out.set(body, end);
      end += body.length;
    }
    header(this.#view, start, end - content, kind, call);
    this.#at = end;
    this.#socket.write(this.#out.subarray(start, end));
  }

  /** Each piece is copied once, into one buffer with the headers of all frames. */
  #sendLarge(call, kind, json, body) {
    const pieces = body === undefined ? [json] : [new Uint8Array(4), json, body];
    if (body !== undefined) new DataView(pieces[0].buffer).setUint32(0, json.length, true);
    let rest = 0;
    for (const piece of pieces) rest += piece.length;
    const frames = new Uint8Array(rest + Math.ceil(rest / FRAME_MAX) * HEADER), view = new DataView(frames.buffer);
    let at = 0, piece = 0, from = 0;
    do {
      let room = Math.min(rest, FRAME_MAX);
      rest -= room;
      header(view, at, room, kind | (rest ? MORE << 8 : 0), call);
      at += HEADER;
      while (room) {
        const content = pieces[piece], until = Math.min(content.length, from + room);
        frames.set(content.subarray(from, until), at);
        at += until - from;
        room -= until - from;
        from = until;
        if (from === content.length) piece++, from = 0;
      }
      kind = BODY;
    } while (rest);
    this.#socket.write(frames);
  }

  /** Calls back when everything is sent. */
  end(then) {
    this.#socket.end(then);
  }
}

const header = (function (view, at, size, kind, call) {
  view.setUint32(at, size, true);
  view.setUint32(at + 4, kind, true);
  view.setUint32(at + 8, call % WORD, true);
  view.setUint32(at + 12, Math.floor(call / WORD), true);
});

/** Returns the number of 32 bits at this place. */
export const wordAt = (function (bytes, at) {
  return (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0;
});

/** Returns pieces as one. */
export const joined = (function (pieces) {
  if (pieces.length === 1) return pieces[0];
  let size = 0;
  for (const piece of pieces) size += piece.length;
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
});
