// POST text: a title.
const { plain } = require("./plain.cjs");

module.exports.handler = (event) => ({
  slug: plain(String(event.data ?? "")).toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, ""),
});
