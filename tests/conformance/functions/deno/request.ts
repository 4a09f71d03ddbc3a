export default (event: any) => {
  const request = event.extensions.request;
  return {
    method: request.method,
    path: request.path,
    query: request.query.a,
    header: request.get("X-Name"),
    body: request.body.toString(),
    type: event["event-type"],
    id: event["ce-id"],
  };
};
