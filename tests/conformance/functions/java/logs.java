import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;

public class Logs {
    public String handler(Event event, Context context) {
        context.log.warning("hello", Map.of("items", 3));
        return "logged";
    }
}
