using System;
using Kubeless.Functions;

public class Cannot
{
    public object handler(Event e, Context context)
    {
        return new { here = new Uri("file:///") };
    }
}
