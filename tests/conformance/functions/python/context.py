def handler(event, context):
    names = ["invocation", "attempt", "poll", "trigger", "deadline", "traceparent", "previous"]
    return {name: context[name] for name in names}
