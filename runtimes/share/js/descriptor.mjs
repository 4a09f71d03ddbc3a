// The connection on descriptor 3, by `node:net`. Node and deno share this file.
import { Socket } from "node:net";

/** Opens the socket of a wire. */
export function descriptor(wire) {
  const socket = new Socket({ fd: 3, readable: true, writable: true });
  socket.on("data", (bytes) => wire.take(bytes));
  socket.on("error", wire.onEnd);
  socket.on("close", wire.onEnd);
  return socket;
}
