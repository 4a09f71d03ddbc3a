let open;
const gate = new Promise((resolve) => open = resolve);

module.exports = async (event) => {
  if (event.data === "open") open();
  else await gate;
  return event.data;
};
