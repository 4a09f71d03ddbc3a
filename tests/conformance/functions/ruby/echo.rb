def handler(event, context)
  event[:data]
end
