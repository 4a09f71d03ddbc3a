"""Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello/http/?name=Ada"""
# /// fnd
# description = "Greets who is named in the query"
# labels = { team = "web" }
# [limits]
# timeout = "5s"
# ///
calls = 0


def handler(event, context):
    global calls
    calls += 1
    request = event["extensions"]["request"]
    name = request.query.get("name") or "you"
    return {"hello": name, "method": request.method, "calls": calls}
