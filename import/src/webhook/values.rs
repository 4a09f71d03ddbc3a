//! Values of a request, as commands of bash that print them.

use crate::script::quoted;
use crate::tree::NamedValue;

/// Functions of the script that read values; `$body` is the file of the body.
pub(super) const PAYLOAD: &str = r#"payload() { # NAME, with dots: prints the value in the body
    if [[ $CONTENT_TYPE == application/x-www-form-urlencoded* ]]; then
        field "$1" "$(<"$body")"
        return
    fi
    jq -r --arg name "$1" 'getpath($name / "." | map(tonumber? // .)) // "" | if type == "string" then . else tojson end' "$body" 2>/dev/null
}"#;

/// Reads a field of a query or a form.
pub(super) const FIELD: &str = r#"field() { # NAME, QUERY: prints the first value
    local pair value
    while IFS= read -r -d '&' pair; do
        [[ ${pair%%=*} == "$1" && $pair == *=* ]] || continue
        value=${pair#*=} value=${value//+/ } value=${value//\\/\\\\}
        printf '%b' "${value//%/\\x}"
        return
    done <<<"$2&"
}"#;

/// The parts of the request that a script needs.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Needs {
    /// The body as a file, `$body`.
    pub(super) body: bool,
    /// The function `payload`.
    pub(super) payload: bool,
    /// The function `field`.
    pub(super) field: bool,
}

/// Returns a word of bash with the value that a parameter names.
///
/// # Errors
/// fnd does not know the value.
pub(super) fn word(parameter: &NamedValue<'_>, needs: &mut Needs) -> Result<String, String> {
    let source = parameter.text_of("source").ok_or("the parameter has no `source`")?;
    let name = parameter.text_of("name").unwrap_or_default();
    if name.chars().any(char::is_control) {
        return Err("the name has control characters".to_owned());
    }
    Ok(match (source.as_str(), name.as_str()) {
        ("string", value) => quoted(value),
        ("payload", name) if !name.is_empty() => {
            *needs = Needs {
                body: true,
                payload: true,
                field: true,
            };
            format!("\"$(payload {})\"", quoted(name))
        }
        ("url" | "query", name) if !name.is_empty() => {
            needs.field = true;
            format!("\"$(field {} \"$QUERY_STRING\")\"", quoted(name))
        }
        ("header", name) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            let variable = name.to_ascii_uppercase().replace('-', "_");
            match variable.as_str() {
                // CGI names these two without `HTTP_` (RFC 3875, section 4.1).
                "CONTENT_TYPE" | "CONTENT_LENGTH" => format!("\"${{{variable}-}}\""),
                _ => format!("\"${{HTTP_{variable}-}}\""),
            }
        }
        ("request", "method") => "\"$REQUEST_METHOD\"".to_owned(),
        ("request", "remote-addr") => "\"$REMOTE_ADDR\"".to_owned(),
        ("entire-payload", _) => {
            needs.body = true;
            // webhook is written in Go, whose encoder of JSON sorts the keys of a map and writes no blanks.
            "\"$(jq -cS . \"$body\")\"".to_owned()
        }
        ("raw-request-body", _) => {
            needs.body = true;
            "\"$(<\"$body\")\"".to_owned()
        }
        ("entire-headers" | "entire-query", _) => {
            return Err(format!(
                "a script has no single value for `{source}`: name the headers or parameters that it needs"
            ));
        }
        ("context", _) => return Err("it is what `pre-hook-command` prints, which fnd does not have".to_owned()),
        _ => return Err(format!("`{source}` with the name `{name}` is no value of a request")),
    })
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
