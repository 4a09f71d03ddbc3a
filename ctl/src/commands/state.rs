//! `fndctl state`: the versioned values that functions share.

use crate::client::{encode, request};
use crate::common::filter::RunFilter;
use crate::common::payload;
use crate::common::tables::table;
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use crate::text::{distance, size};
use fnd_core::api::{StateEntry, StateKeys, StateScopes, StateWritten};
use fnd_manifest::state_key::StateKey;
use hyper::Method;
use hyper::body::Bytes;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl state set shop/orders 7              any JSON; what is no JSON is stored as a text\n  \
    fndctl state get shop/orders                print the value\n  \
    fndctl state get shop/orders -o json        with its version\n  \
    fndctl state set shop/orders 8 --if-version 1\n  \
    fndctl state list shop/cart/                keys that begin so; without SCOPE the scopes\n  \
    fndctl state delete shop/orders\n\n\
    A change that finds another version than --if-version, or a value in spite of --new, ends with exit code 7 and changes nothing: read \
    the value again and repeat the change. Exit code 3: the key has no value. Inside a function with `[access] state` it works as well.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: StateVerb,
}

#[derive(Debug, clap::Subcommand)]
enum StateVerb {
    /// List the scopes, or the keys of a scope.
    #[command(visible_alias = "ls", after_help = "Example:\n  fndctl state list shop")]
    List {
        /// List the keys of this scope, or only those that begin so.
        #[arg(value_name = "SCOPE[/BEGINNING]")]
        place: Option<String>,
    },
    /// Print a value; a text without quotes, `-o json` with its version.
    #[command(after_help = "Example:\n  fndctl state get shop/orders")]
    Get {
        /// The value.
        #[arg(value_name = "SCOPE/KEY")]
        key: String,
    },
    /// Set a value.
    #[command(after_help = "Example:\n  fndctl state set shop/orders 8 --if-version 7")]
    Set {
        /// The value to set.
        #[arg(value_name = "SCOPE/KEY")]
        key: String,

        // A value such as `-1` is no option.
        /// Stored as JSON if it parses, else as a text; `@FILE` reads a file, `-` reads standard input.
        #[arg(value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
        value: String,

        /// Store a text, even if it is or begins like JSON.
        #[arg(long)]
        text: bool,

        /// Set it only over this version.
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,

        /// Set it only if the key has no value.
        #[arg(long, conflicts_with = "if_version")]
        new: bool,
    },
    /// Delete a value.
    #[command(aliases = ["rm", "remove"], after_help = "Example:\n  fndctl state delete shop/orders")]
    Delete {
        /// The value to delete.
        #[arg(value_name = "SCOPE/KEY")]
        key: String,

        /// Delete it only if it has this version.
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    match args.action {
        StateVerb::List { place: None } => scopes(context).await,
        StateVerb::List { place: Some(place) } => keys(context, &place).await,
        StateVerb::Get { key } => get(context, &key).await,
        StateVerb::Set {
            key,
            value,
            text,
            if_version,
            new,
        } => {
            let value = self::value(payload::bytes(&value)?, text)?;
            let headers = match (if_version, new) {
                (None, true) => vec![("if-none-match".to_owned(), "*".to_owned())],
                (version, _) => matching(version),
            };
            change(context, (Method::PUT, &key), &headers, value, "has version").await
        }
        StateVerb::Delete { key, if_version } => {
            let (headers, done) = (matching(if_version), "is deleted; it had version");
            change(context, (Method::DELETE, &key), &headers, Vec::new(), done).await
        }
    }
}

fn matching(version: Option<u64>) -> Vec<(String, String)> {
    let header = |version| ("if-match".to_owned(), format!("\"{version}\""));
    version.map(header).into_iter().collect()
}

/// Returns the path of a value, checked before anything is sent.
fn path(text: &str) -> Result<String, CommandFailure> {
    let key = StateKey::parse(text).map_err(|expected| CommandFailure::usage(format!("`{text}`: {expected}")))?;
    // The slashes of a key separate segments of the path, so only the segments are encoded.
    let segments: Vec<String> = key.key().split('/').map(encode).collect();
    Ok(format!("/v1/state/{}/{}", encode(key.scope()), segments.join("/")))
}

/// Returns what is stored: the bytes if they are JSON, else their text as JSON.
fn value(bytes: Vec<u8>, text: bool) -> Result<Vec<u8>, CommandFailure> {
    if !text && payload::media_type(&bytes)? == payload::JSON {
        return Ok(bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(serde_json::Value::from(text).to_string().into_bytes()),
        Err(_) => Err(CommandFailure::usage("the value is neither JSON nor UTF-8 text")
            .help("encode it, for example with `base64`")),
    }
}

async fn scopes(context: &Context) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/state").await?;
    context.out.answer(&reply.body, |list: &StateScopes, out| {
        // With `-q` a script gets nothing instead of a sentence.
        if list.scopes.is_empty() && out.format != Format::Name {
            return out.remark("the state has no keys");
        }
        out.table(&table(["SCOPE", "KEYS", "SIZE"], &list.scopes, |scope| {
            [scope.scope.clone(), scope.keys.to_string(), size(Some(scope.bytes))]
        }))
    })
}

async fn keys(context: &Context, place: &str) -> Result<Exit, CommandFailure> {
    let (scope, prefix) = place.split_once('/').unwrap_or((place, ""));
    // Only the scope is checked, so any valid key will do.
    StateKey::new(scope, "x").map_err(|expected| CommandFailure::usage(format!("`{scope}`: {expected}")))?;
    let mut parameters = Parameters::default();
    parameters.add("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()));
    let path = format!("/v1/state/{}", encode(scope));
    let parts = |page: StateKeys| (page.keys, page.next);
    let mut wanted = RunFilter::of(parameters, u32::MAX, None);
    let list = StateKeys {
        keys: wanted.all(context, &path, parts).await?,
        next: wanted.next,
    };
    let now = Timestamp::now();
    context.made(&list, |out| {
        out.table(&table(["KEY", "VERSION", "SIZE", "CHANGED"], &list.keys, |key| {
            [
                format!("{scope}/{}", key.key),
                key.version.to_string(),
                size(Some(key.bytes)),
                distance(Some(&key.changed_at), now),
            ]
        }))
    })
}

async fn get(context: &Context, key: &str) -> Result<Exit, CommandFailure> {
    let reply = context.client.get(&path(key)?).await?;
    context.out.answer(&reply.body, |entry: &StateEntry, out| {
        let json = entry.value.get();
        // As jq prints with -r, so that a script needs no parser for a text or a number.
        let mut shown = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
        if out.format != Format::Raw && !shown.ends_with('\n') {
            shown.push('\n');
        }
        out.result(shown.as_bytes())
    })
}

async fn change(
    context: &Context,
    (method, key): (Method, &str),
    headers: &[(String, String)],
    body: Vec<u8>,
    done: &str,
) -> Result<Exit, CommandFailure> {
    let mut headers = headers.to_vec();
    if !body.is_empty() {
        headers.push(("content-type".to_owned(), payload::JSON.to_owned()));
    }
    let request = request(method, &path(key)?, &headers, Bytes::from(body))?;
    let reply = context.client.send(request).await?;
    context.out.answer(&reply.body, |written: &StateWritten, out| {
        out.remark(&format!("{}/{} {done} {}", written.scope, written.key, written.version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_a_text() {
        let stored = |given: &str, text| String::from_utf8(value(given.into(), text).unwrap()).unwrap();
        for (given, text, expected) in [
            ("7", false, "7"),
            ("7", true, "\"7\""),
            ("{\"a\": 1}", false, "{\"a\": 1}"),
            ("paid", false, "\"paid\""),
            ("", false, "\"\""),
            ("[", true, "\"[\""),
        ] {
            assert_eq!(stored(given, text), expected, "{given}");
        }
        assert_eq!(value(b"{a".to_vec(), false).unwrap_err().exit, Exit::Usage);
        assert_eq!(value(b"\xff".to_vec(), true).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn keys_are_paths() {
        assert_eq!(path("shop/cart/a b").unwrap(), "/v1/state/shop/cart/a%20b");
        assert_eq!(path("shop/..").unwrap_err().exit, Exit::Usage);
    }
}
