// Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello-node/http/?name=Ada
// /// fnd
// description = "Greets who is named in the query"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
let calls = 0;

module.exports = (event) => {
  const request = event.extensions.request;
  return { hello: request.query.name ?? "you", method: request.method, calls: ++calls };
};
