using System.Linq;
using System.Text;
using Kubeless.Functions;

public class Asks
{
    public object handler(Event e, Context context)
    {
        string pair = e.Query.Split('&').FirstOrDefault(each => each.StartsWith("a="));
        return new
        {
            method = e.Method,
            path = e.Path,
            query = pair == null ? null : System.Uri.UnescapeDataString(pair.Substring(2)),
            header = e.Header("X-Name"),
            body = Encoding.UTF8.GetString(e.Body),
            type = e.EventType,
            id = e.Header("ce-id"),
        };
    }
}
