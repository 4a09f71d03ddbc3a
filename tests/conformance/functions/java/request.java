import fnd.Request;
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;

public class Asks {
    public Object handler(Event event, Context context) {
        Request request = event.request;
        return Map.of(
            "method", request.method(),
            "path", request.path(),
            "query", request.query().get("a"),
            "header", request.header("X-Name"),
            "body", request.text(),
            "type", event.EventType,
            "id", event.get("ce-id")
        );
    }
}
