using Kubeless.Functions;

public static class Knows
{
    public static object handler(Event e, Context context)
    {
        return new
        {
            invocation = context.Invocation,
            attempt = context.Attempt,
            poll = context.Poll,
            trigger = context.Trigger,
            deadline = context.Deadline,
            traceparent = context.Traceparent,
            previous = context.Previous,
        };
    }
}
