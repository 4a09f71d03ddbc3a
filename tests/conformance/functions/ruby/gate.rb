GATE = Queue.new

def handler(event, context)
  event["data"] == "open" ? GATE.close : GATE.pop
  event["data"]
end
