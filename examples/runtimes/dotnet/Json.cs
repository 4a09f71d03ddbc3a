// JSON, with what both .NET and mono have: objects are Dictionary<string, object>, arrays List<object>, numbers long or double.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Reflection;
using System.Text;
using System.Text.RegularExpressions;

static class Json
{
    const int DepthMax = 500;
    static readonly Regex Number = new Regex(@"\G-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?");

    public static object Read(string text)
    {
        int at = 0;
        object value = Value(text, ref at, 0);
        return Next(text, ref at) == '\0' ? value : throw Bad(at);
    }

    static FormatException Bad(int at) { return new FormatException("invalid JSON at character " + at); }

    // Returns the next character that is no space, without taking it; '\0' at the end.
    static char Next(string text, ref int at)
    {
        while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0) at++;
        return at < text.Length ? text[at] : '\0';
    }

    static bool Take(string text, ref int at, string word)
    {
        if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0) return false;
        at += word.Length;
        return true;
    }

    static object Value(string text, ref int at, int depth)
    {
        if (depth > DepthMax) throw Bad(at);
        char first = Next(text, ref at);
        if (first == '"') return Text(text, ref at);
        if (first == '{')
        {
            var members = new Dictionary<string, object>();
            at++;
            if (Next(text, ref at) == '}') { at++; return members; }
            while (true)
            {
                if (Next(text, ref at) != '"') throw Bad(at);
                string name = Text(text, ref at);
                if (Next(text, ref at) != ':') throw Bad(at);
                at++;
                members[name] = Value(text, ref at, depth + 1);
                if (More(text, ref at, '}')) return members;
            }
        }
        if (first == '[')
        {
            var items = new List<object>();
            at++;
            if (Next(text, ref at) == ']') { at++; return items; }
            while (true)
            {
                items.Add(Value(text, ref at, depth + 1));
                if (More(text, ref at, ']')) return items;
            }
        }
        if (Take(text, ref at, "true")) return true;
        if (Take(text, ref at, "false")) return false;
        if (Take(text, ref at, "null")) return null;
        Match number = Number.Match(text, at);
        if (!number.Success) throw Bad(at);
        at += number.Length;
        long whole;
        if (long.TryParse(number.Value, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out whole)) return whole;
        return double.Parse(number.Value, CultureInfo.InvariantCulture);
    }

    // Says whether an object or array ends here; takes its end, or the comma.
    static bool More(string text, ref int at, char end)
    {
        char next = Next(text, ref at);
        if (next != ',' && next != end) throw Bad(at);
        at++;
        return next == end;
    }

    static string Text(string text, ref int at)
    {
        var found = new StringBuilder();
        for (at++; at < text.Length && text[at] != '"'; at++)
        {
            char letter = text[at];
            if (letter < ' ') throw Bad(at);
            if (letter != '\\') { found.Append(letter); continue; }
            at++;
            int known = at < text.Length ? "\"\\/bfnrt".IndexOf(text[at]) : -1;
            ushort code;
            if (known >= 0) found.Append("\"\\/\b\f\n\r\t"[known]);
            else if (at + 4 < text.Length && text[at] == 'u' && ushort.TryParse(text.Substring(at + 1, 4),
                NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out code)) { found.Append((char)code); at += 4; }
            else throw Bad(at);
        }
        if (at >= text.Length) throw Bad(at);
        at++;
        return found.ToString();
    }

    public static string Write(object value)
    {
        var text = new StringBuilder();
        Write(text, value, 0);
        return text.ToString();
    }

    static void Write(StringBuilder text, object value, int depth)
    {
        if (depth > DepthMax) throw new ArgumentException("it is nested too deeply, or contains itself");
        Type type = value == null ? null : value.GetType();
        if (value == null) text.Append("null");
        else if (value is bool) text.Append((bool)value ? "true" : "false");
        else if (value is string || value is char || value is Enum) Quote(text, value.ToString());
        else if (value is double || value is float)
        {
            double number = Convert.ToDouble(value);
            if (double.IsNaN(number) || double.IsInfinity(number)) throw new ArgumentException("JSON has no number " + number);
            text.Append(((IFormattable)value).ToString("R", CultureInfo.InvariantCulture));
        }
        else if (value is decimal || type.IsPrimitive && !(value is IntPtr || value is UIntPtr))
            text.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
        else if (value is IDictionary) Members(text, ((IDictionary)value).GetEnumerator(), depth);
        else if (value is IEnumerable)
        {
            char before = '[';
            foreach (object item in (IEnumerable)value) { text.Append(before); Write(text, item, depth + 1); before = ','; }
            text.Append(before == '[' ? "[]" : "]");
        }
        // An object of the function: `new { name = "Ada" }`, or of a class of its own.
        else if (type.Assembly == typeof(Json).Assembly && !(value is Delegate))
        {
            var members = new Dictionary<string, object>();
            foreach (PropertyInfo property in type.GetProperties(BindingFlags.Public | BindingFlags.Instance))
                if (property.GetIndexParameters().Length == 0) members[property.Name] = property.GetValue(value, null);
            foreach (FieldInfo field in type.GetFields(BindingFlags.Public | BindingFlags.Instance)) members[field.Name] = field.GetValue(value);
            Members(text, ((IDictionary)members).GetEnumerator(), depth);
        }
        else throw new ArgumentException("it has a value of type " + type);
    }

    static void Members(StringBuilder text, IDictionaryEnumerator members, int depth)
    {
        char before = '{';
        while (members.MoveNext())
        {
            text.Append(before);
            Quote(text, members.Key.ToString());
            text.Append(':');
            Write(text, members.Value, depth + 1);
            before = ',';
        }
        text.Append(before == '{' ? "{}" : "}");
    }

    static void Quote(StringBuilder text, string value)
    {
        text.Append('"');
        foreach (char letter in value)
        {
            if (letter == '"' || letter == '\\') text.Append('\\').Append(letter);
            else if (letter < ' ') text.Append("\\u").Append(((int)letter).ToString("x4"));
            else text.Append(letter);
        }
        text.Append('"');
    }
}
