// A handler: fnd compiles and loads this file once, then calls `handler` for each invocation, of one and the same object.
//
// What it prints is the log. What it returns is the result: text, bytes, or anything that JSON can say. An exception is a
// failure; `fnd.TransientException` is tried again if [retry] allows it, `fnd.FailedException` never.
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;

public class Handler {
    public Object handler(Event event, Context context) {
        Map<String, Object> data = event.data() instanceof Map ? event.map() : Map.of();
        context.log.info("called", Map.of("attempt", context.attempt));
        return Map.of("hello", data.getOrDefault("name", "world"));
    }
}
