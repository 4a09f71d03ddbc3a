let open: (value?: unknown) => void;
const gate = new Promise((resolve) => open = resolve);

export default async (event: any) => {
  if (event.data === "open") open();
  else await gate;
  return event.data;
};
