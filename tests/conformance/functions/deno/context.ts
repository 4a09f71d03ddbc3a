export default (event: any, context: any) => {
  const { invocation, attempt, poll, trigger, deadline, traceparent, previous } = context;
  return { invocation, attempt, poll, trigger, deadline, traceparent, previous };
};
