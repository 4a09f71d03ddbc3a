// Makes a class a stream of Node whose state is made when the first method of a stream is used. Most handlers use none, and
// so pay nothing for it. Node and deno share this file.

/** What a stream keeps in itself. All methods of streams and of event emitters read one of these first. */
const STATE = ["_events", "_readableState", "_writableState"];

/**
 * Lets a class inherit from `Readable` or `Writable` without calling its constructor. `begin(object)` is called once, before
 * the state of the stream is read for the first time, and calls that constructor.
 */
export function streams(kind, base, begin) {
  const own = kind.prototype;
  let top = own;
  while (Object.getPrototypeOf(top) !== Object.prototype) top = Object.getPrototypeOf(top);
  Object.setPrototypeOf(top, base.prototype);
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
}

function keep(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, configurable: true });
}
