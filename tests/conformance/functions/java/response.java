import fnd.Response;
import io.kubeless.Context;
import io.kubeless.Event;
import java.util.Map;

public class Answers {
    public Response handler(Event event, Context context) {
        return new Response(Map.of("made", true), 201, Map.of("X-Name", "value"));
    }
}
