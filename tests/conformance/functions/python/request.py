def handler(event, context):
    request = event["extensions"]["request"]
    return {
        "method": request.method,
        "path": request.path,
        "query": request.query["a"],
        "header": request.get_header("X-Name"),
        "body": request.body.decode(),
        "type": event["event-type"],
        "id": event["ce-id"],
    }
