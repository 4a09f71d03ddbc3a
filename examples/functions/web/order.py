"""Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}"""
# /// fnd
# description = "Adds up an order, or says what is wrong with it"
# labels = { team = "web" }
# [limits]
# timeout = "5s"
# ///
import fnd


def handler(event, context):
    order = event["data"]
    if not isinstance(order, dict) or not order.get("items"):
        return fnd.Response({"error": "an order has `items`"}, status=422)
    total = sum(item["price"] * item.get("count", 1) for item in order["items"])
    context.log.info("order", items=len(order["items"]), total=total)
    return {"total": round(total, 2)}
