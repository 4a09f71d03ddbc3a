// A script: each run is a process of its own.
//
// Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
// Exit codes: 0 success, 75 try again later, 65 never try again, others an error. Access to the network, files and
// programs is granted by `permissions` in the manifest.
const payload = JSON.parse(await new Response(Deno.stdin.readable).text());
console.error("run", Deno.env.get("FND_INVOCATION"), "attempt", Deno.env.get("FND_ATTEMPT"));
console.log(JSON.stringify({ words: payload.text.trim().split(/\s+/).length }));
