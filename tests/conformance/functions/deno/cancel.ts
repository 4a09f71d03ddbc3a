export default async (event: any, context: any) => {
  if (event.data === "wait") await new Promise((_, reject) => context.signal.addEventListener("abort", reject));
  return event.data;
};
