# Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
# /// fnd
# description = "Adds up an order, or says what is wrong with it"
# labels = { team = "web" }
# [limits]
# timeout = "5s"
# ///
def handler(event, context)
  order = event["data"]
  items = order["items"] if order.is_a?(Hash)
  return Fnd::Response.new({ error: "an order has `items`" }, status: 422) if items.nil? || items.empty?

  total = items.sum { |item| item["price"] * item.fetch("count", 1) }
  context.log.info("order", items: items.size, total: total)
  { total: total.round(2) }
end
