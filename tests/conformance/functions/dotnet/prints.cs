using System;
using System.Threading.Tasks;
using Kubeless.Functions;

public class Prints
{
    public async Task<object> handler(Event e, Context context)
    {
        await Task.Yield();
        Console.WriteLine("out " + e.Data);
        Console.Error.WriteLine("err " + e.Data);
        return e.Data;
    }
}
