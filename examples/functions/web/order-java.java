// Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
// /// fnd
// description = "Adds up an order, or says what is wrong with it"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
import fnd.Response;
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.List;
import java.util.Map;

public class Order {
    @SuppressWarnings("unchecked")
    public Object handler(Event event, Context context) {
        List<Map<String, Number>> items = (List<Map<String, Number>>) event.map().get("items");
        if (items == null || items.isEmpty()) {
            return new Response(Map.of("error", "an order has `items`"), 422);
        }
        double total = 0;
        for (Map<String, Number> item : items) {
            total += item.get("price").doubleValue() * item.getOrDefault("count", 1).longValue();
        }
        context.log.info("order", Map.of("items", items.size(), "total", total));
        return Map.of("total", Math.round(total * 100) / 100.0);
    }
}
