module.exports = async (event, context) => {
  if (event.data === "wait") await new Promise((_, reject) => context.signal.addEventListener("abort", reject));
  return event.data;
};
