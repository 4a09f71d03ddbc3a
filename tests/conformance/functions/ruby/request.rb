def handler(event, context)
  request = event[:extensions][:request]
  {
    method: request.method,
    path: request.path,
    query: request.query["a"],
    header: request.get_header("X-Name"),
    body: request.body.force_encoding("UTF-8"),
    type: event["event-type"],
    id: event["ce-id"],
  }
end
