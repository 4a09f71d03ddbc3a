// A timer that nobody stops: only Deno.exit ends it.
setInterval(() => {}, 1000);
console.log("exiting");
Deno.exit(0);
