# Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello-ruby/http/?name=Ada
# /// fnd
# description = "Greets who is named in the query"
# labels = { team = "web" }
# [limits]
# timeout = "5s"
# ///
$calls = 0

def handler(event, context)
  $calls += 1
  request = event["extensions"]["request"]
  { hello: request.query.fetch("name", "you"), method: request.method, calls: $calls }
end
