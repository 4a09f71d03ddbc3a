def handler(event, context)
  puts "out #{event["data"]}"
  warn "err #{event["data"]}"
  event["data"]
end
