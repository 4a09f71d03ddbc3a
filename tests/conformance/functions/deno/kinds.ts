declare const fnd: any;

export default (event: any, context: any) => {
  const kind = event.data;
  if (kind === "error") throw new TypeError("it broke");
  if (kind === "transient") throw new fnd.TransientException("it broke");
  if (kind === "failed") throw new fnd.FailedException("it broke");
  if (kind === "again") {
    throw new fnd.ExecuteAgainException("it broke", { seen: (context.previous?.seen ?? 0) + 1 });
  }
  return "fine";
};
