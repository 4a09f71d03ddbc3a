// A handler: fnd loads this file once, then calls the exported function for each invocation.
//
// What it prints is the log. What it returns is the result: text, bytes, or anything that JSON can say. An exception is a
// failure.
module.exports = async (event, context) => {
  console.log("called, attempt", context.attempt);
  return { hello: event.data?.name ?? "world" };
};
