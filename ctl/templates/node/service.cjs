// A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
//
// Standard output and standard error are the log: `fndctl logs` shows it.
process.on("SIGTERM", () => {
  console.log("stopping");
  process.exit(0);
});

console.log("started");
setInterval(() => console.log(new Date().toISOString()), 10_000);
