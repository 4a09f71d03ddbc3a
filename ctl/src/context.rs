//! The values that every verb needs, and the paths and parameters of its requests.

use crate::client::{Client, encode};
use crate::exit::CommandFailure;
use crate::output::Output;
use crate::text;
use fnd_wire::ids::FunctionName;
use jiff::Timestamp;

/// The values that every verb needs.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Output,
    /// Whether the user's own fnd is meant.
    pub(crate) user: bool,
}

/// Returns the path of a function, checked before anything is sent.
pub(crate) fn function_path(name: &str) -> Result<String, CommandFailure> {
    let name = FunctionName::new(name).map_err(|error| no_name(name, &error.to_string()))?;
    Ok(format!("/v1/functions/{}", encode(name.as_str())))
}

/// Returns the failure of a text that is no name. People type the file of a function.
fn no_name(typed: &str, why: &str) -> CommandFailure {
    let failure = CommandFailure::usage(why);
    let file = typed.rsplit('/').next().unwrap_or(typed);
    match file.split_once('.').map(|(stem, _)| FunctionName::new(stem)) {
        Some(Ok(name)) => failure.help(format!(
            "a function has the name of its file without the suffix: `{name}`"
        )),
        _ => failure,
    }
}

/// Returns the path of an invocation, by its whole id.
pub(crate) fn invocation_path(id: &str) -> String {
    format!("/v1/invocations/{id}")
}

/// The parameters of a request, as its query string.
#[derive(Debug, Default)]
pub(crate) struct Parameters(pub(crate) String);

impl Parameters {
    pub(crate) fn add(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(&format!("{name}={}", encode(value)));
        }
    }

    /// Adds the instants that a person typed as `--since` and `--until`: times, or how long ago.
    ///
    /// # Errors
    /// One is no time, or nothing can lie between them.
    pub(crate) fn add_span(
        &mut self,
        (since, until): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Result<(), CommandFailure> {
        let instant = |option, typed: Option<&str>| typed.map(|typed| text::since(option, typed, now)).transpose();
        let (from, to) = (instant("--since", since)?, instant("--until", until)?);
        let parsed = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
        if let (Some(first), Some(last)) = (parsed(&from), parsed(&to))
            && first >= last
        {
            let (since, until) = (since.unwrap_or_default(), until.unwrap_or_default());
            let message = format!("`--since {since}` is not before `--until {until}`, so nothing lies between them");
            return Err(CommandFailure::usage(message));
        }
        self.add("since", from.as_deref());
        self.add("until", to.as_deref());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameters, function_path};
    use jiff::Timestamp;

    #[test]
    fn a_span_has_its_beginning_first() {
        let now: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
        let add = |since, until| {
            let mut parameters = Parameters::default();
            parameters.add_span((since, until), now).map(|()| parameters.0)
        };
        assert_eq!(add(None, None).unwrap(), "");
        let both = add(Some("2h"), Some("1h")).unwrap();
        assert!(both.starts_with("?since=") && both.contains("&until="), "{both}");
        for (since, until) in [("1h", "2h"), ("1h", "1h"), ("2026-11-22T00:00:00Z", "1h")] {
            let message = add(Some(since), Some(until)).unwrap_err().message;
            assert!(
                message.starts_with(&format!("`--since {since}` is not before")),
                "{message}"
            );
        }
    }

    #[test]
    fn the_file_of_a_function_is_recognised() {
        for (typed, expected) in [
            ("hello.sh", Some("`hello`")),
            ("functions/web/hello.sh", Some("`hello`")),
            ("Hello", None),
            ("../x", None),
        ] {
            let help = function_path(typed).unwrap_err().help;
            assert_eq!(help.is_some(), expected.is_some(), "{typed}");
            assert!(
                help.unwrap_or_default().contains(expected.unwrap_or_default()),
                "{typed}"
            );
        }
    }
}
