await new Promise((resolve) => setTimeout(resolve, 10));
const late = await import("node:path");
console.log(late.basename("/a/awaited"));
