//! Values of a request, as webhook reads them (`internal/hook` of webhook 2.8): as commands of bash.

use crate::script::quoted;
use crate::tree::NamedValue;
use std::collections::BTreeSet;

/// The functions of the script, in their order. The variables of the script begin with `_`: a hook may choose any name for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HookFunction {
    /// The body as a file, `$_body`: standard input can be read once, and several values may come from it.
    Body,
    Header,
    /// Reads a field of a query or a form.
    Field,
    /// Reads the body as JSON.
    Json,
    /// Reads a value of the body.
    Payload,
    /// Makes JSON of a query or a form.
    Pairs,
    /// Makes JSON of the whole body.
    Entire,
}

impl HookFunction {
    /// Returns the lines of the script.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Body => "_body=$TMPDIR/body; cat >\"$_body\"",
            Self::Header => HEADER,
            Self::Field => FIELD,
            Self::Json => JSON,
            Self::Payload => PAYLOAD,
            Self::Pairs => PAIRS,
            Self::Entire => ENTIRE,
        }
    }
}

const HEADER: &str = r#"header() { # VARIABLE: sets REPLY; fails if the request has no such header
    REPLY=${!1-}
    [[ -v $1 ]]
}"#;

const FIELD: &str = r#"unescape() { # TEXT: sets REPLY to the text without + and %XX
    REPLY=${1//+/ } REPLY=${REPLY//\\/\\\\}
    printf -v REPLY %b "${REPLY//%/\\x}"
}
field() { # NAME, QUERY: sets REPLY to the first value; fails if there is none
    local pair
    while IFS= read -r -d '&' pair; do
        unescape "${pair%%=*}"
        [[ -n $pair && $REPLY == "$1" ]] || continue
        [[ $pair == *=* ]] && pair=${pair#*=} || pair=
        unescape "$pair"
        return
    done <<<"$2&"
    REPLY=
    return 1
}"#;

/// jq changes large numbers and `1.0`, so each number is a text for jq. The order of the keys, the escapes and the search for a
/// name with dots are those of webhook and of Go's encoder.
const JSON: &str = r##"json() { # FILTER, NAME: sets REPLY to what jq makes of the body; fails if there is nothing
    local text numbers=$'s/("([^"\\\\]|\\\\.)*")|(-?[0-9][-+.0-9eE]*)/\\1\x01\\3\x01/g;s/\x01\x01//g;s/\x01([^\x01]*)\x01/"\\\\u0001\\1"/g'
    text=$(LC_ALL=C sed -E "$numbers" "$_body" | jq -rjen --arg name "$2" \
        "$_jq first(inputs) | if type == \"array\" then {root: .} else . end | $1" 2>/dev/null && echo .) || { REPLY=; return 1; }
    REPLY=${text%.}
}
_jq='def is_number: type == "string" and test("^\u0001-?[0-9][-+.0-9eE]*$");
def text: tojson | gsub("<"; "\\u003c") | gsub(">"; "\\u003e") | gsub("&"; "\\u0026");
def go: if type == "object" then "{" + ([to_entries | sort_by(.key)[] | (.key | text) + ":" + (.value | go)] | join(",")) + "}"
    elif type == "array" then "[" + (map(go) | join(",")) + "]"
    elif is_number then .[1:] elif type == "string" then text else tojson end;
def shown: if . == null then "<nil>" elif is_number then .[1:] elif type == "string" then . else go end;
def at($name): ($name / ".") as $parts | ($parts[0] // "") as $first | ($parts[1:] | join(".")) as $rest
    | def next: if ($parts | length) > 1 then at($rest) else . end;
    if type == "object" and has($name) then .[$name] elif type == "object" and has($first) then .[$first] | next
    elif type == "array" and ($first | test("^[0-9]+$")) and ($first | tonumber) < length then .[$first | tonumber] | next
    else error("none") end;'"##;

/// webhook reads the body by its content type.
const PAYLOAD: &str = r#"payload() { # NAME, with dots: sets REPLY to the value in the body; fails if there is none
    case $_kind in
    *json*) json 'at($name) | shown' "$1" ;;
    *x-www-form-urlencoded*) field "$1" "$(<"$_body")" ;;
    *) REPLY= && return 1 ;;
    esac
}"#;

const PAIRS: &str = r#"pairs() { # QUERY: sets REPLY to its fields, as JSON
    local pair list=()
    while IFS= read -r -d '&' pair; do
        [[ -n $pair ]] || continue
        unescape "${pair%%=*}" && list+=("$REPLY")
        [[ $pair == *=* ]] && pair=${pair#*=} || pair=
        unescape "$pair" && list+=("$REPLY")
    done <<<"$1&"
    REPLY={}
    ((${#list[@]})) || return 0
    REPLY=$(printf '%s\0' "${list[@]}" | jq -Rsj "$_jq"'split("\u0000") as $all | reduce range(0; ($all | length) - 1; 2) as $at
        ({}; if has($all[$at]) then . else .[$all[$at]] = $all[$at + 1] end) | go')
}"#;

const ENTIRE: &str = r#"entire() { # sets REPLY to the whole body, as JSON
    case $_kind in
    *json*) json 'if type == "object" then go else "null" end' '' || REPLY=null ;;
    *x-www-form-urlencoded*) pairs "$(<"$_body")" ;;
    *) REPLY=null ;;
    esac
}"#;

/// The functions that a script needs.
pub(super) type Needs = BTreeSet<HookFunction>;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HookValue {
    /// A word of bash; the request always has it.
    Word(String),
    /// A command that sets `REPLY`, and fails if the request has no such value.
    Command(String),
}

/// Returns the value that a parameter names.
///
/// # Errors
/// fnd does not know the value.
pub(super) fn value(parameter: &NamedValue<'_>, needs: &mut Needs) -> Result<HookValue, String> {
    use HookFunction::{Body, Entire, Field, Header, Json, Pairs, Payload};
    let source = parameter.text_of("source").ok_or("the parameter has no `source`")?;
    let name = parameter.text_of("name").unwrap_or_default();
    if name.chars().any(char::is_control) {
        return Err("the name has control characters".to_owned());
    }
    let command = |text: String| Ok(HookValue::Command(text));
    match (source.as_str(), name.as_str()) {
        ("string", value) => Ok(HookValue::Word(quoted(value))),
        ("payload", name) if !name.is_empty() => {
            needs.extend([Body, Field, Json, Payload]);
            command(format!("payload {}", quoted(name)))
        }
        ("url" | "query", name) if !name.is_empty() => {
            needs.extend([Field]);
            command(format!("field {} \"$QUERY_STRING\"", quoted(name)))
        }
        ("header", name) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            needs.extend([Header]);
            let variable = name.to_ascii_uppercase().replace('-', "_");
            command(match variable.as_str() {
                // CGI names these two without `HTTP_` (RFC 3875, section 4.1).
                "CONTENT_TYPE" | "CONTENT_LENGTH" => format!("header {variable}"),
                _ => format!("header HTTP_{variable}"),
            })
        }
        ("request", name) if name.eq_ignore_ascii_case("method") => {
            Ok(HookValue::Word("\"$REQUEST_METHOD\"".to_owned()))
        }
        ("request", name) if name.eq_ignore_ascii_case("remote-addr") => {
            Ok(HookValue::Word("\"$REMOTE_ADDR\"".to_owned()))
        }
        ("entire-payload", _) => {
            needs.extend([Body, Field, Json, Pairs, Entire]);
            command("entire".to_owned())
        }
        ("entire-query", _) => {
            needs.extend([Field, Json, Pairs]);
            command("pairs \"$QUERY_STRING\"".to_owned())
        }
        ("raw-request-body", _) => {
            needs.extend([Body]);
            // A body without a NUL is read to its end, which `read` takes for a failure.
            command("{ IFS= read -r -d '' REPLY <\"$_body\" || :; }".to_owned())
        }
        ("entire-headers", _) => {
            Err("a script has no single value for `entire-headers`: name the headers that it needs".to_owned())
        }
        ("context", _) => Err("it is what `pre-hook-command` prints, which fnd does not have".to_owned()),
        ("template", _) => Err("fnd has no templates of Go: name the values, and join them in the script".to_owned()),
        _ => Err(format!("`{source}` with the name `{name}` is no value of a request")),
    }
}

/// Returns the place of a parameter in `when`; nothing if no condition can look there.
pub(super) fn place(parameter: &NamedValue<'_>) -> Option<String> {
    let name = parameter.text_of("name")?;
    let place = match parameter.text_of("source")?.as_str() {
        "payload" => format!("body.{name}"),
        "url" | "query" => format!("query.{name}"),
        "header" => format!("header.{}", name.to_ascii_lowercase()),
        _ => return None,
    };
    fnd_manifest::function::route::RequestPlace::parse(&place)?;
    // A number is an index of a list for webhook, and a name for fnd.
    let indexed = place.split('.').any(|part| part.parse::<u64>().is_ok());
    (!indexed && !name.chars().any(char::is_control)).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs a command after all functions of the script; returns what it sets `REPLY` to.
    fn reply(command: &str, kind: &str, body: &str) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("body");
        std::fs::write(&path, body).unwrap();
        let mut text = String::new();
        for function in [HEADER, FIELD, JSON, PAYLOAD, PAIRS, ENTIRE] {
            text.push_str(function);
            text.push('\n');
        }
        text.push_str(&format!("{command} && printf '%s.' \"$REPLY\"\n"));
        let mut bash = Command::new("bash");
        let _ = bash.args(["-c", &text]).env("_body", &path).env("_kind", kind);
        let output = bash.env("HTTP_X_EMPTY", "").env("HTTP_A", "z").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.strip_suffix('.').map(str::to_owned)
    }

    /// The rows of `TestGetParameter` and `TestExtractParameter` of webhook, and what Go prints of each kind of value.
    #[test]
    fn values_of_a_payload_are_those_of_webhook() {
        if Command::new("jq").arg("--version").output().is_err() {
            eprintln!("skipped: there is no jq");
            return;
        }
        for (name, body, expected) in [
            ("a", r#"{"a": "1"}"#, Some("1")),
            ("a.b", r#"{"a.b": "1"}"#, Some("1")),
            ("a.c", r#"{"a": {"c": 2}}"#, Some("2")),
            ("a.1", r#"{"a": {"1": 3}}"#, Some("3")),
            ("a.1", r#"{"a": ["a", "b"]}"#, Some("b")),
            ("root.0", r#"["a", "b"]"#, Some("a")),
            ("z", r#"{"a": "1"}"#, None),
            ("a.z", r#"{"a": {"b": 2}}"#, None),
            ("z.b", r#"{"a": {"z": 2}}"#, None),
            ("a.2", r#"{"a": ["a", "b"]}"#, None),
            ("a.b.c", r#"{"a": {"b": {"c": "z"}}}"#, Some("z")),
            ("a.b.0", r#"{"a": {"b": ["x", "y", "z"]}}"#, Some("x")),
            ("a.1.b", r#"{"a": [{"b": "y"}, {"b": "z"}]}"#, Some("z")),
            ("a.1.b.c", r#"{"a": [{"b": {"c": "y"}}, {"b": {"c": "z"}}]}"#, Some("z")),
            ("b", r#"{"b": {"z": 1}}"#, Some(r#"{"z":1}"#)),
            ("c", r#"{"c": ["y", "z"]}"#, Some(r#"["y","z"]"#)),
            ("a.X.c", r#"{"a": [{"b": "y"}, {"b": "z"}]}"#, None),
            ("a.-1.b", r#"{"a": [{"b": "y"}, {"b": "z"}]}"#, None),
            ("a.500.b", r#"{"a": {"b": "z"}}"#, None),
            ("a.501.b", r#"{"a": [{"b": "y"}, {"b": "z"}]}"#, None),
            ("a.502.b", r#"{"a": []}"#, None),
            ("a.b.503", r#"{"a": {"b": ["x", "y", "z"]}}"#, None),
            ("a.b", r#""a""#, None),
            ("a", r#"{"a": false}"#, Some("false")),
            ("a", r#"{"a": true}"#, Some("true")),
            ("a", r#"{"a": null}"#, Some("<nil>")),
            ("a", r#"{"a": ""}"#, Some("")),
            ("a", "{\"a\": \"x\\n\\n\"}", Some("x\n\n")),
            ("a", r#"{"a": 9007199254740993}"#, Some("9007199254740993")),
            ("a", r#"{"a": 12345678901234567890}"#, Some("12345678901234567890")),
            ("a", r#"{"a": 1.0}"#, Some("1.0")),
            ("a", r#"{"a": 1e3}"#, Some("1e3")),
            ("a", r#"{"a": -0}"#, Some("-0")),
            ("a", r#"{"a": "b \"5\" 7\\"}"#, Some(r#"b "5" 7\"#)),
            (
                "a",
                r#"{"a": {"z": [1.0, null, false], "b": "<&>"}}"#,
                Some(r#"{"b":"\u003c\u0026\u003e","z":[1.0,null,false]}"#),
            ),
            ("a", "{", None),
            ("a", "", None),
            ("a", "7", None),
        ] {
            let found = reply(&format!("payload {}", quoted(name)), "application/json", body);
            assert_eq!(found.as_deref(), expected, "{name} of {body}");
        }
        let entire = |kind, body| reply("entire", kind, body);
        assert_eq!(
            entire("application/json", r#"{"b": 1.0, "a": 9007199254740993}"#).as_deref(),
            Some(r#"{"a":9007199254740993,"b":1.0}"#)
        );
        assert_eq!(entire("application/json", "[7]").as_deref(), Some(r#"{"root":[7]}"#));
        assert_eq!(entire("text/plain", "7").as_deref(), Some("null"));
        let form = "application/x-www-form-urlencoded";
        assert_eq!(
            entire(form, "b=1+2&a=%3C&b=3").as_deref(),
            Some(r#"{"a":"\u003c","b":"1 2"}"#)
        );
    }

    #[test]
    fn values_of_forms_queries_and_headers_are_those_of_webhook() {
        let form = "application/x-www-form-urlencoded";
        for (command, body, expected) in [
            ("payload a", "a=z&a=y", Some("z")),
            ("payload a.b", "a.b=x%20y+z", Some("x y z")),
            ("payload b", "a=z", None),
            ("payload a", "a", Some("")),
            ("field q 'x=1&q=a%26b'", "", Some("a&b")),
            ("field 'a b' 'a+b=c'", "", Some("c")),
            ("field q ''", "", None),
            ("header HTTP_A", "", Some("z")),
            ("header HTTP_X_EMPTY", "", Some("")),
            ("header HTTP_NONE", "", None),
        ] {
            assert_eq!(reply(command, form, body).as_deref(), expected, "{command} of {body}");
        }
        assert_eq!(reply("payload a", "text/plain", "a=z"), None);
    }
}
