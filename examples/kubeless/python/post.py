def echo(event, context):
    print(event["event-namespace"], event["event-type"])
    return event["data"]
