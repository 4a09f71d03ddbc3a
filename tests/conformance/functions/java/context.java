import io.kubeless.Context;
import io.kubeless.Event;

public class Facts {
    public Call handler(Event event, Context context) {
        return new Call(
            context.invocation, context.attempt, context.poll, context.trigger, context.deadline, context.traceparent,
            context.previous
        );
    }

    record Call(
        String invocation, int attempt, int poll, String trigger, Long deadline, String traceparent, Object previous
    ) {
    }
}
