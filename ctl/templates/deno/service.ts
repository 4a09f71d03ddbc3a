// A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
//
// Standard output and standard error are the log: `fndctl logs` shows it. Access to the network, files and programs is
// granted by `permissions` in the manifest.
Deno.addSignalListener("SIGTERM", () => {
  console.log("stopping");
  Deno.exit(0);
});

console.log("started");
setInterval(() => console.log(new Date().toISOString()), 10_000);
