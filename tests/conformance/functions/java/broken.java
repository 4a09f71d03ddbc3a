import io.kubeless.Context;
import io.kubeless.Event;

public class Broken {
    public String handler(Event event, Context context) {
        return missing_bracket(;
    }
}
