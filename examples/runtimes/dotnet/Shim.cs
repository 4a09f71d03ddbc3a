// The shim of runtime dotnet: a function's file has a method with the parameters (Event, Context).
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading.Tasks;
using Kubeless.Functions;

// The names are those of Kubeless.
namespace Kubeless.Functions
{
    public class Event
    {
        // JSON as Json.Read says it, text as a string, anything else as byte[].
        public object Data;
        public string EventId, EventType, EventTime, EventNamespace;
        public string Method = "POST", Path = "/", Query = "";
        public Dictionary<string, string> Headers = new Dictionary<string, string>();
        public byte[] Body = new byte[0];

        public string Header(string name)
        {
            string value;
            return Headers.TryGetValue(name.ToLowerInvariant(), out value) ? value : null;
        }
    }

    public class Context
    {
        public string FunctionName, Timeout, Runtime, MemoryLimit;
        public string Invocation, Trigger, Traceparent;
        public long Attempt, Poll, Deadline;
        // The data of an ExecuteAgainException of the attempt before.
        public object Previous;
        public Action<string, string, object> Log;
    }
}

namespace Fnd
{
    public class Response
    {
        public int Status = 200;
        public object Body;
        public Dictionary<string, string> Headers = new Dictionary<string, string>();
    }

    public class TransientException : Exception { public TransientException(string text) : base(text) { } }
    public class FailedException : Exception { public FailedException(string text) : base(text) { } }
    public class BadRequest : Exception { public BadRequest(string text) : base(text) { } }
    public class ExecuteAgainException : Exception
    {
        public readonly object Previous;
        public ExecuteAgainException(string text, object previous) : base(text) { Previous = previous; }
    }
}

static class Shim
{
    const int Ready = 1, Invoke = 2, BodyType = 3, Result = 4, Error = 5, Log = 6, Stop = 7;
    const int FrameMax = 256 << 10, More = 1, Optional = 2;
    static readonly Encoding Utf8 = new UTF8Encoding(false, true);
    static MethodInfo handler;
    static object owner;

    // The socket. .NET and mono have no class in common for a descriptor that is open already.
    [DllImport("libc", SetLastError = true)] static extern IntPtr read(int descriptor, ref byte start, IntPtr size);
    [DllImport("libc", SetLastError = true)] static extern IntPtr write(int descriptor, ref byte start, IntPtr size);
    [DllImport("libc")] static extern int fcntl(int descriptor, int command, int value);
    const int Interrupted = 4, SetFlags = 2, CloseOnExec = 1;

    static byte[] Receive(int size)
    {
        var bytes = new byte[size];
        for (int at = 0; at < size;)
        {
            int got = (int)read(3, ref bytes[at], (IntPtr)(size - at));
            if (got < 0 && Marshal.GetLastWin32Error() == Interrupted) continue;
            // The end of the socket: fnd is gone, nobody waits for an answer.
            if (got <= 0) Environment.Exit(0);
            at += got;
        }
        return bytes;
    }

    static void Send(int type, ulong call, byte[] content)
    {
        for (int at = 0; at == 0 || at < content.Length; at += FrameMax, type = BodyType)
        {
            int size = Math.Min(content.Length - at, FrameMax);
            var frame = new MemoryStream();
            var writer = new BinaryWriter(frame);
            writer.Write(size);
            writer.Write((byte)type);
            writer.Write((byte)(at + size < content.Length ? More : 0));
            writer.Write((ushort)0);
            writer.Write(call);
            writer.Write(content, at, size);
            byte[] bytes = frame.ToArray();
            for (int sent = 0; sent < bytes.Length;)
            {
                int more = (int)write(3, ref bytes[sent], (IntPtr)(bytes.Length - sent));
                if (more < 0 && Marshal.GetLastWin32Error() != Interrupted) Environment.Exit(1);
                sent += Math.Max(more, 0);
            }
        }
    }

    static void Find()
    {
        string wanted = Environment.GetEnvironmentVariable("FUNC_HANDLER");
        var all = typeof(Shim).Assembly.GetTypes()
            .SelectMany(type => type.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly))
            .Where(method => method.GetParameters().Select(parameter => parameter.ParameterType).SequenceEqual(new[] { typeof(Event), typeof(Context) }))
            .ToList();
        var named = all.Where(method => method.Name == (string.IsNullOrEmpty(wanted) ? "handler" : wanted)).ToList();
        if (named.Count == 0 && string.IsNullOrEmpty(wanted)) named = all;
        if (named.Count != 1) throw new Exception("the file needs one public method `" + (string.IsNullOrEmpty(wanted) ? "handler" : wanted) + "(Event, Context)`");
        handler = named[0];
        owner = handler.IsStatic ? null : Activator.CreateInstance(handler.DeclaringType);
    }

    static T Get<T>(IDictionary<string, object> head, string name, T otherwise)
    {
        object value;
        return head.TryGetValue(name, out value) && value is T ? (T)value : otherwise;
    }

    // The payload by its content type; without one JSON if it is, else text.
    static object Payload(byte[] bytes, string type)
    {
        string kind = type == null ? "" : type.Split(';')[0].Trim().ToLowerInvariant();
        if (kind == "application/json") return bytes.Length == 0 ? null : Json.Read(Utf8.GetString(bytes));
        if (kind != "" && !kind.StartsWith("text/", StringComparison.Ordinal)) return bytes;
        if (kind != "") return Encoding.UTF8.GetString(bytes);
        try { return Json.Read(Utf8.GetString(bytes)); }
        catch (DecoderFallbackException) { return bytes; }
        catch (FormatException) { return Utf8.GetString(bytes); }
    }

    // Returns the two arguments of the handler.
    static object[] Arguments(ulong call, byte[] content)
    {
        int size = BitConverter.ToInt32(content, 0), at = 4 + size;
        var head = (IDictionary<string, object>)Json.Read(Utf8.GetString(content, 4, size));
        var made = new Event();
        string type = Get<string>(head, "content_type", null);
        var request = Get<IDictionary<string, object>>(head, "request", null);
        if (request != null)
        {
            made.Method = Get(request, "method", "");
            made.Path = Get(request, "path", "");
            made.Query = Get(request, "query", "");
            foreach (List<object> pair in Get(request, "headers", new List<object>()))
            {
                string name = (string)pair[0], before = made.Header(name);
                made.Headers[name] = before == null ? (string)pair[1] : before + ", " + pair[1];
            }
        }
        if (head.ContainsKey("data"))
        {
            made.Body = content.Skip(at).Take((int)Get(head, "data", 0L)).ToArray();
            made.Data = Payload(made.Body, type ?? made.Header("content-type"));
            at += made.Body.Length;
        }
        made.EventId = made.Header("event-id") ?? made.Header("ce-id");
        made.EventType = made.Header("event-type") ?? made.Header("ce-type");
        made.EventTime = made.Header("event-time") ?? made.Header("ce-time");
        made.EventNamespace = made.Header("event-namespace") ?? made.Header("ce-source");
        var context = new Context
        {
            FunctionName = handler.Name,
            Timeout = Environment.GetEnvironmentVariable("FUNC_TIMEOUT"),
            Runtime = Environment.GetEnvironmentVariable("FUNC_RUNTIME"),
            MemoryLimit = Environment.GetEnvironmentVariable("FUNC_MEMORY_LIMIT"),
            Invocation = Get(head, "invocation", ""),
            Trigger = Get(head, "trigger", ""),
            Traceparent = Get(head, "traceparent", ""),
            Attempt = Get(head, "attempt", 0L),
            Poll = Get(head, "poll", 0L),
            Deadline = Get(head, "deadline_ms", 0L),
            Previous = at < content.Length ? Json.Read(Utf8.GetString(content, at, content.Length - at)) : null,
        };
        context.Log = (level, text, fields) => Send(Log, call, Utf8.GetBytes(Json.Write(new
        {
            time_ms = (long)(DateTime.UtcNow - new DateTime(1970, 1, 1)).TotalMilliseconds, level, message = text, fields = fields ?? new { },
        })));
        return new object[] { made, context };
    }

    static object Call(object[] arguments)
    {
        try
        {
            object value = handler.Invoke(owner, arguments);
            var task = value as Task;
            if (task == null) return value;
            task.GetAwaiter().GetResult();
            PropertyInfo result = task.GetType().GetProperty("Result");
            return result == null || result.PropertyType.Name == "VoidTaskResult" ? null : result.GetValue(task, null);
        }
        catch (TargetInvocationException thrown) { ExceptionDispatchInfo.Capture(thrown.InnerException).Throw(); }
        return null;
    }

    static byte[] Answer(object value)
    {
        var head = new Dictionary<string, object>();
        var response = value as Fnd.Response;
        string own = null;
        if (response != null)
        {
            value = response.Body;
            head["status"] = response.Status;
            head["headers"] = response.Headers.Where(header => header.Key.ToLowerInvariant() != "content-type")
                .Select(header => new[] { header.Key.ToLowerInvariant(), header.Value }).ToList();
            own = response.Headers.Where(header => header.Key.ToLowerInvariant() == "content-type").Select(header => header.Value).FirstOrDefault();
        }
        var body = value as byte[];
        string type = body != null ? "application/octet-stream" : value is string ? "text/plain; charset=utf-8" : "application/json";
        if (body == null) body = value == null ? new byte[0] : Utf8.GetBytes(value as string ?? Json.Write(value));
        if (value != null)
        {
            head["content_type"] = own ?? type;
            head["data"] = body.Length;
        }
        byte[] encoded = Utf8.GetBytes(Json.Write(head));
        return BitConverter.GetBytes(encoded.Length).Concat(encoded).Concat(body).ToArray();
    }

    static byte[] Failure(Exception why)
    {
        var again = why as Fnd.ExecuteAgainException;
        string kind = again != null ? "execute-again" : why is Fnd.TransientException ? "transient" : why is Fnd.FailedException ? "failed" : "error";
        var answer = new Dictionary<string, object> { { "kind", kind }, { "message", why.Message } };
        if (kind == "error") answer["stack"] = why.ToString();
        try
        {
            if (again != null) answer["data"] = again.Previous;
            return Utf8.GetBytes(Json.Write(answer));
        }
        catch (ArgumentException bad) { return BadAnswer("execute again: the data is no JSON: " + bad.Message); }
    }

    static byte[] BadAnswer(string text) { return Encoding.UTF8.GetBytes(Json.Write(new { kind = "bad-answer", message = text })); }

    static void Serve(ulong call, byte[] content)
    {
        int type = Result;
        byte[] answer;
        try
        {
            object value = Call(Arguments(call, content));
            try { answer = Answer(value); }
            // JSON that cannot be written, or text that cannot be UTF-8.
            catch (ArgumentException why)
            {
                type = Error;
                answer = BadAnswer("the handler returned a value that is not text, bytes or JSON: " + why.Message);
            }
        }
        catch (Fnd.BadRequest bad) { answer = Answer(new Fnd.Response { Status = 400, Body = bad.Message + "\n" }); }
        catch (Exception why) { type = Error; answer = Failure(why); }
        Console.Out.Flush();
        Console.Error.Flush();
        Send(type, call, answer);
    }

    static int Main()
    {
        // Programs that a function starts do not hold the socket open.
        fcntl(3, SetFlags, CloseOnExec);
        try { Find(); }
        catch (Exception why)
        {
            Send(Error, 0, Failure(why is TargetInvocationException ? why.InnerException : why));
            return 1;
        }
        Send(Ready, 0, Utf8.GetBytes("{\"protocol\":1,\"concurrency\":1}"));
        var message = new MemoryStream();
        while (true)
        {
            byte[] header = Receive(16);
            byte[] content = Receive(BitConverter.ToInt32(header, 0));
            int type = header[4], flags = header[5];
            if (type == Stop) return 0;
            if (type != Invoke && type != BodyType)
            {
                if ((flags & Optional) != 0) continue;
                Console.Error.WriteLine("fnd sent a frame of type " + type);
                return 1;
            }
            message.Write(content, 0, content.Length);
            if ((flags & More) != 0) continue;
            byte[] whole = message.ToArray();
            message.SetLength(0);
            Serve(BitConverter.ToUInt64(header, 8), whole);
        }
    }
}
