using System.Collections.Generic;
using Kubeless.Functions;

public class Responds
{
    public Fnd.Response handler(Event e, Context context)
    {
        var headers = new Dictionary<string, string> { { "X-Name", "value" } };
        return new Fnd.Response { Status = 201, Headers = headers, Body = new { made = true } };
    }
}
