using Kubeless.Functions;

public class Logs
{
    public string Only(Event e, Context context)
    {
        context.Log("warning", "hello", new { items = 3 });
        return "logged";
    }
}
