// The connection to fnd's Unix socket. `node:net` would do, but deno takes as long to load that module as to start.
import { joined } from "../share/js/wire.mjs";

/** Messages that wait are written at once, up to this size. */
const WRITE = 64 << 10;

/** The socket of a wire. It may be written to before it is connected. */
export class Connection {
  #conn;
  #queue = [];
  #isWriting = true;
  #then;
  #onEnd;

  /** `onRefused(error)` is called instead of `wire.onEnd` if the socket cannot be connected. */
  constructor(path, wire, onRefused) {
    this.#onEnd = wire.onEnd;
    // In the background: meanwhile deno loads the function.
    Deno.connect({ transport: "unix", path }).then((conn) => {
      this.#conn = conn;
      this.#flush();
      this.#read(wire);
    }, onRefused);
  }

  async #read(wire) {
    for (;;) {
      let count;
      try {
        count = await this.#conn.read(wire.room());
      } catch {
        count = null;
      }
      if (count === null) return this.#onEnd();
      wire.filled(count);
    }
  }

  write(bytes) {
    this.#queue.push(bytes);
    if (!this.#isWriting) this.#flush();
  }

  /** Calls back when everything is written. */
  end(then) {
    this.#then = then;
    if (!this.#isWriting) then();
  }

  /** Writes until nothing waits. A write may take less than it is given. */
  async #flush() {
    this.#isWriting = true;
    try {
      while (this.#queue.length) {
        let bytes = this.#next();
        while (bytes.length) bytes = bytes.subarray(await this.#conn.write(bytes));
      }
    } catch {
      return this.#onEnd();
    }
    this.#isWriting = false;
    this.#then?.();
  }

  /** Removes from the queue what is written next: several small messages as one piece, or a large one. */
  #next() {
    let count = 1, size = this.#queue[0].length;
    while (count < this.#queue.length && size + this.#queue[count].length <= WRITE) size += this.#queue[count++].length;
    return joined(this.#queue.splice(0, count));
  }
}
