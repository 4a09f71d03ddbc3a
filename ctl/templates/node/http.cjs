// A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.
//
// It listens on the port in $PORT. What it prints is the log. Any framework works in the same way.
const http = require("node:http");

http.createServer((request, response) => {
  let bytes = 0;
  request.on("data", (piece) => { bytes += piece.length; });
  request.on("end", () => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ path: request.url, bytes }));
  });
}).listen(process.env.PORT, "127.0.0.1");
