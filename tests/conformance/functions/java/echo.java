import io.kubeless.Context;
import io.kubeless.Event;

public class Echo {
    public Object handler(Event event, Context context) {
        return event.data();
    }
}
