def handler(event, context)
  context.log.warning("hello", items: 3)
  "logged"
end
