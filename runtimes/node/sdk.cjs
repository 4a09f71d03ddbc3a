// The module `sdk` of Kyma's newest Node runtimes. `sdk.mjs` puts its functions here. Each is named, because an `import` of
// a CommonJS module finds only names that its text has.
const sdk = globalThis[Symbol.for("fnd.sdk")];
exports.emitCloudEvent = sdk.emitCloudEvent;
exports.getBodySizeLimit = sdk.getBodySizeLimit;
exports.getCloudEvent = sdk.getCloudEvent;
exports.getFunctionName = sdk.getFunctionName;
exports.getNamespace = sdk.getNamespace;
exports.getRuntime = sdk.getRuntime;
exports.getTimeout = sdk.getTimeout;
exports.getTracer = sdk.getTracer;
