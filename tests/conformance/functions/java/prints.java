import io.kubeless.Context;
import io.kubeless.Event;

public class Prints {
    public static String handler(Event event, Context context) {
        System.out.println("out " + event.Data);
        System.err.println("err " + event.Data);
        return event.Data;
    }
}
