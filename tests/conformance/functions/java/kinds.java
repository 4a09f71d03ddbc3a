import fnd.ExecuteAgainException;
import fnd.FailedException;
import fnd.TransientException;
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;

public class Kinds {
    public String handler(Event event, Context context) {
        switch (event.Data) {
            case "error":
                throw new IllegalStateException("it broke");
            case "transient":
                throw new TransientException("it broke");
            case "failed":
                throw new FailedException("it broke");
            case "again":
                long seen = context.previous instanceof Map<?, ?> previous ? (Long) previous.get("seen") : 0;
                throw new ExecuteAgainException("it broke", Map.of("seen", seen + 1));
            default:
                return "fine";
        }
    }
}
