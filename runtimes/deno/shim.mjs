// The shim of runtime deno: serves the function whose file is the first argument. The second one is the path of fnd's socket, or
// `http` for a function that serves HTTP.
import "./host.mjs";

const [entry, how] = Deno.args;
// The function sees its own command line, without the socket.
Deno.args.length = Math.min(Deno.args.length, 1);
// Each loads modules that the other does not need.
if (how === "http") await (await import("./http.mjs")).serveHttp(entry);
else await (await import("./handle.mjs")).handle(entry, how);
