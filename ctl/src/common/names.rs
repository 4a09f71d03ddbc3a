//! Names of functions on the command line: several, patterns with `*` and `?`, and the name that was probably meant.

use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::FunctionList;
use fnd_manifest::schema::read::nearest;

/// Returns whether a name is a pattern, which no name of a function is.
pub(crate) fn is_pattern(typed: &str) -> bool {
    typed.contains(['*', '?'])
}

/// Returns the functions that were named. Asks the daemon for their names only if there is a pattern among them.
///
/// # Errors
/// A name is not valid, a pattern matches nothing, or the daemon does not answer.
pub(crate) async fn expand(context: &Context, typed: &[String]) -> Result<Vec<String>, CommandFailure> {
    if typed.iter().any(|name| is_pattern(name)) {
        return select(typed, &all(context).await?);
    }
    // All names are checked before the first function is changed.
    for name in typed {
        function_path(name)?;
    }
    Ok(typed.to_vec())
}

/// Returns those of all functions that were named, each once.
///
/// # Errors
/// A name or a pattern matches no function.
pub(crate) fn select(typed: &[String], all: &[String]) -> Result<Vec<String>, CommandFailure> {
    let mut selected: Vec<String> = Vec::new();
    for pattern in typed {
        let is_meant = |name: &&String| matches(pattern.as_bytes(), name.as_bytes());
        let found: Vec<&String> = all.iter().filter(is_meant).collect();
        if found.is_empty() && is_pattern(pattern) {
            let message = format!("no function matches `{pattern}`");
            return Err(CommandFailure::new(Exit::NoSuchThing, message).help("`fndctl list` shows all functions"));
        } else if found.is_empty() {
            function_path(pattern)?;
            let message = format!("there is no function `{pattern}`: `fndctl list` shows all functions");
            return Err(unknown(pattern, message));
        }
        for name in found {
            if !selected.contains(name) {
                selected.push(name.clone());
            }
        }
    }
    Ok(selected)
}

/// Returns the failure of a name of no function, which is compared with the names that there are before it is printed.
pub(crate) fn unknown(name: &str, message: String) -> CommandFailure {
    let mut failure = CommandFailure::new(Exit::NoSuchThing, message);
    failure.unknown = Some(name.to_owned());
    failure
}

/// Returns whether a name matches a pattern: `*` is any text, also with slashes, `?` any character.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', pattern @ ..], []) => matches(pattern, name),
        ([b'*', after @ ..], [_, rest @ ..]) => matches(after, name) || matches(pattern, rest),
        ([b'?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
        ([one, pattern @ ..], [other, name @ ..]) if one == other => matches(pattern, name),
        _ => false,
    }
}

/// Returns the names of all functions.
pub(crate) async fn all(context: &Context) -> Result<Vec<String>, CommandFailure> {
    let list: FunctionList = context.read("/v1/functions").await?;
    let functions = list.functions.iter();
    Ok(functions.map(|function| function.function.to_string()).collect())
}

/// Adds to a failure about an unknown function the name that was probably meant.
pub(crate) async fn suggest(context: &Context, mut failure: CommandFailure) -> CommandFailure {
    let Some(unknown) = failure.unknown.take() else {
        return failure;
    };
    // If this request fails, the first failure is still the one to report.
    let all = all(context).await.unwrap_or_default();
    match meant(&unknown, &all) {
        Some(name) => failure.help(format!("did you mean `{name}`?")),
        None => failure,
    }
}

/// Returns the name that is nearest to an unknown one: in a group, or with a typing error.
fn meant<'a>(unknown: &str, all: &'a [String]) -> Option<&'a str> {
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let in_group = names.iter().find(|name| name.rsplit('/').next() == Some(unknown));
    in_group.copied().or_else(|| nearest(unknown, &names))
}

#[cfg(test)]
mod tests {
    use crate::common::names::*;

    #[test]
    fn patterns_and_names_are_selected_once() {
        let all = ["hello", "ops/backup", "web/a", "web/b"].map(str::to_owned);
        for (typed, expected) in [
            (&["web/*"][..], &["web/a", "web/b"][..]),
            (&["web/?", "hello", "web/a"], &["web/a", "web/b", "hello"]),
            (&["*"], &["hello", "ops/backup", "web/a", "web/b"]),
            (&["*e*o"], &["hello"]),
            (&["*ba*k*p"], &["ops/backup"]),
        ] {
            let typed: Vec<String> = typed.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(select(&typed, &all).unwrap(), expected);
        }
        for (typed, exit) in [
            ("api/*", Exit::NoSuchThing),
            ("helo", Exit::NoSuchThing),
            ("Hello", Exit::Usage),
        ] {
            assert_eq!(select(&[typed.to_owned()], &all).unwrap_err().exit, exit, "{typed}");
        }
    }

    #[test]
    fn the_name_that_was_meant() {
        let all = ["hello", "ops/backup"].map(str::to_owned);
        assert_eq!(meant("helo", &all), Some("hello"));
        assert_eq!(meant("backup", &all), Some("ops/backup"));
        assert_eq!(meant("opps/backup", &all), Some("ops/backup"));
        assert_eq!(meant("thumbnail", &all), None);
    }
}
