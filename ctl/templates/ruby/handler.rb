# A handler: fnd loads this file once, then calls `handler` for each invocation.
#
# What it prints is the log. What it returns is the result: text, bytes, or anything that JSON can say. An exception is a
# failure; `Fnd::TransientException` is tried again if [retry] allows it, `Fnd::FailedException` never.

def handler(event, context)
  data = event["data"].is_a?(Hash) ? event["data"] : {}
  context.log.info("called", attempt: context["attempt"])
  { hello: data.fetch("name", "world") }
end
