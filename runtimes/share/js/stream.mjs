// Makes a class a stream of Node whose state is made when the first method of a stream is used. Most handlers use none, and
// so pay nothing for it. Node and deno share this file.
import { host } from "./host.mjs";

/** What a stream keeps in itself. All methods of streams and of event emitters read one of these first. */
const STATE = ["_events", "_readableState", "_writableState"];

/**
 * Lets a class inherit from `base`, the `Readable` or `Writable` of `node:stream`, without calling its constructor.
 * `begin(object)` is called once, before the state of the stream is read for the first time, and calls that constructor.
 */
export const streams = (function (kind, base, begin) {
  const own = kind.prototype;
  let top = own;
  while (Object.getPrototypeOf(top) !== Object.prototype) top = Object.getPrototypeOf(top);
  Object.setPrototypeOf(top, host.stream ? host.stream[base].prototype : later(top, base));
  for (const name of STATE) {
    Object.defineProperty(own, name, {
      configurable: true,
      get() {
        // The event emitter compares the state of an object with that of its class.
        if (this === own) return undefined;
        for (const name of STATE) keep(this, name, undefined);
        begin(this);
        return this[name];
      },
      set(value) {
        keep(this, name, value);
      },
    });
  }
});

/**
 * Returns a prototype for `top` that loads `node:stream` when something is looked for that the classes above do not have,
 * or when an object is compared with a class (`instanceof`). The prototype of the stream then takes its place.
 */
const later = (function (top, base) {
  const load = () => {
    const { prototype } = host.builtin("node:stream")[base];
    Object.setPrototypeOf(top, prototype);
    return prototype;
  };
  // `await` and `JSON.stringify` look for these in every object, and no stream has them.
  const isPlain = (name) => name === "then" || name === "toJSON" || name in Object.prototype;
  return new Proxy({}, {
    get: (_, name, receiver) => Reflect.get(isPlain(name) ? Object.prototype : load(), name, receiver),
    has: (_, name) => Reflect.has(isPlain(name) ? Object.prototype : load(), name),
    set: (_, name, value, receiver) => Reflect.set(load(), name, value, receiver),
    getPrototypeOf: load,
  });
});

function keep(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, configurable: true });
}
