def hello(event, context)
  "hello world"
end
