"""A handler: fnd loads this file once, then calls `handler` for each invocation.

What it prints is the log. What it returns is the result: text, bytes, or anything that JSON can say. An exception is a
failure; `fnd.TransientException` is tried again if [retry] allows it, `fnd.FailedException` never.
"""


def handler(event, context):
    data = event["data"] if isinstance(event["data"], dict) else {}
    context.log.info("called", attempt=context.attempt)
    return {"hello": data.get("name", "world")}
