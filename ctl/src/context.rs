//! The values that every verb needs, and the paths and parameters of its requests.

use crate::client::{Client, encode};
use crate::exit::CommandFailure;
use crate::output::Output;
use crate::text;
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
    let name = fnd_wire::ids::FunctionName::new(name).map_err(|error| CommandFailure::usage(error.to_string()))?;
    Ok(format!("/v1/functions/{}", encode(name.as_str())))
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

    /// Adds an instant that a person typed: a time, or how long ago.
    pub(crate) fn add_instant(
        &mut self,
        name: &str,
        typed: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CommandFailure> {
        let instant = typed.map(|typed| text::since(typed, now)).transpose()?;
        self.add(name, instant.as_deref());
        Ok(())
    }
}
