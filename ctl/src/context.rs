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

    /// Adds an instant that a person typed as the option of that name: a time, or how long ago.
    pub(crate) fn add_instant(
        &mut self,
        name: &str,
        typed: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CommandFailure> {
        let instant = typed.map(|typed| text::since(&format!("--{name}"), typed, now));
        let instant = instant.transpose()?;
        self.add(name, instant.as_deref());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::function_path;

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
