// Frames on descriptor 3. Node and deno share this file.
import { Buffer } from "node:buffer";
import { Socket } from "node:net";

export const READY = 1, INVOKE = 2, BODY = 3, RESULT = 4, ERROR = 5, LOG = 6, STOP = 7;
const FRAME_MAX = 256 << 10, HEADER = 16, MORE = 1, OPTIONAL = 2, WORD = 2 ** 32;

/** The socket. It calls `onMessage(type, call, content)` for each complete message, and `onEnd()` when fnd closes it. */
export class Wire {
  constructor(onMessage, onEnd) {
    this.onMessage = onMessage;
    this.rest = [];
    this.size = 0;
    this.begun = new Map();
    this.socket = new Socket({ fd: 3, readable: true, writable: true });
    this.socket.on("data", (bytes) => this.take(bytes));
    this.socket.on("error", onEnd);
    this.socket.on("close", onEnd);
  }

  take(bytes) {
    this.rest.push(bytes);
    this.size += bytes.length;
    // The pieces of a large frame are joined once, when the last one has come.
    if (this.rest.length > 1 && this.size < this.wanted) return;
    let all = this.rest.length === 1 ? bytes : Buffer.concat(this.rest, this.size);
    this.wanted = HEADER;
    while (all.length >= HEADER) {
      const length = all.readUInt32LE(0), kind = all[4], flags = all[5];
      if (length > FRAME_MAX || all.readUInt16LE(6) !== 0) throw new Error("fnd sent an invalid frame");
      if (all.length < HEADER + length) {
        this.wanted = HEADER + length;
        break;
      }
      // Calls are counted from 1: they stay below 2 to the 53 for 285 years of a million a second.
      const call = all.readUInt32LE(8) + all.readUInt32LE(12) * WORD;
      this.frame(kind, flags, call, all.subarray(HEADER, HEADER + length));
      all = all.subarray(HEADER + length);
    }
    this.rest = all.length ? [all] : [];
    this.size = all.length;
  }

  frame(kind, flags, call, content) {
    if (kind !== INVOKE && kind !== BODY && kind !== STOP) {
      if (flags & OPTIONAL) return;
      throw new Error(`fnd sent a frame of type ${kind}`);
    }
    if (kind === BODY) {
      const begun = this.begun.get(call);
      begun.pieces.push(content);
      if (flags & MORE) return;
      this.begun.delete(call);
      this.onMessage(begun.kind, call, Buffer.concat(begun.pieces));
    } else if (flags & MORE) {
      this.begun.set(call, { kind, pieces: [content] });
    } else {
      this.onMessage(kind, call, content);
    }
  }

  /** Sends a message of any number of pieces. Each is copied once, into one buffer with the headers of all frames. */
  send(call, kind, ...pieces) {
    let rest = 0;
    for (const piece of pieces) rest += piece.length;
    const frames = Buffer.allocUnsafe(rest + Math.max(1, Math.ceil(rest / FRAME_MAX)) * HEADER);
    let at = 0, piece = 0, from = 0;
    do {
      let room = Math.min(rest, FRAME_MAX);
      rest -= room;
      frames.writeUInt32LE(room, at);
      frames.writeUInt32LE(kind | (rest ? MORE << 8 : 0), at + 4);
      frames.writeUInt32LE(call % WORD, at + 8);
      frames.writeUInt32LE(Math.floor(call / WORD), at + 12);
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
    this.socket.write(frames);
  }

  json(call, kind, value) {
    this.send(call, kind, Buffer.from(JSON.stringify(value)));
  }

  /** Calls back when everything is sent. */
  end(then) {
    this.socket.end(then);
  }
}
