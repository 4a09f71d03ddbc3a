using System;
using System.Collections.Generic;
using Kubeless.Functions;

public class Kinds
{
    public string handler(Event e, Context context)
    {
        switch (e.Data as string)
        {
            case "error": throw new InvalidOperationException("it broke");
            case "transient": throw new Fnd.TransientException("it broke");
            case "failed": throw new Fnd.FailedException("it broke");
            case "again":
                var previous = context.Previous as Dictionary<string, object>;
                long seen = previous == null ? 0 : (long)previous["seen"];
                throw new Fnd.ExecuteAgainException("it broke", new { seen = seen + 1 });
            default: return "fine";
        }
    }
}
