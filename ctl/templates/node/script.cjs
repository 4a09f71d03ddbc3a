// A script: each run is a process of its own.
//
// Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
// Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
const { readFileSync } = require("node:fs");

const payload = JSON.parse(readFileSync(0, "utf8"));
console.error("run", process.env.FND_INVOCATION, "attempt", process.env.FND_ATTEMPT);
console.log(JSON.stringify({ words: payload.text.trim().split(/\s+/).length }));
