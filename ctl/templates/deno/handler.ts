// A handler: fnd loads this file once, then calls the default export for each invocation.
//
// What it prints is the log. What it returns is the result: text, bytes, anything that JSON can say, or a Response. An
// exception is a failure. Access to the network, files and programs is granted by `permissions` in the manifest.
type Event = { data?: { name?: string } };
type Context = { attempt: number };

export default function (event: Event, context: Context) {
  console.log("called, attempt", context.attempt);
  return { hello: event.data?.name ?? "world" };
}
