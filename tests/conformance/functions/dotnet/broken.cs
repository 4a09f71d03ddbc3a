using Kubeless.Functions;

public class Broken
{
    public object handler(Event e, Context context)
    {
        return missing;
    }
}
