// Greets; the same worker answers call after call. GET with a query: /v1/functions/web%2Fhello-java/http/?name=Ada
// /// fnd
// description = "Greets who is named in the query"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
import fnd.Request;
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

public class Hello {
    private final AtomicInteger calls = new AtomicInteger();

    public Map<String, Object> handler(Event event, Context context) {
        Request request = event.request;
        String name = request.query().getOrDefault("name", "you");
        return Map.of("hello", name, "method", request.method(), "calls", calls.incrementAndGet());
    }
}
