export default (event: any, context: any) => {
  context.log.warning("hello", { items: 3 });
  return "logged";
};
