module.exports = (event, context) => {
  const { invocation, attempt, poll, trigger, deadline, traceparent, previous } = context;
  return { invocation, attempt, poll, trigger, deadline, traceparent, previous };
};
