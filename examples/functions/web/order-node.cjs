// Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
// /// fnd
// description = "Adds up an order, or says what is wrong with it"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
module.exports = {
  main(event, context) {
    const items = event.data?.items;
    if (!items?.length) return { status: 422, headers: {}, body: { error: "an order has `items`" } };
    const total = items.reduce((sum, item) => sum + item.price * (item.count ?? 1), 0);
    context.log("order", { items: items.length, total });
    return { total: Math.round(total * 100) / 100 };
  },
};
