//! The tools that only read: their names, the schemas of their arguments, and how these are read.

use crate::exit::CommandFailure;
use fnd_core::records::outcome::RunState;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) const STATUS: &str = "fnd_status";
pub(super) const HISTORY: &str = "fnd_history";
pub(super) const LOGS: &str = "fnd_logs";

/// Most runs of one answer.
pub(super) const RUNS_MAX: u32 = 100;
/// Runs of an answer whose caller names no limit.
const RUNS: u32 = 20;

/// The arguments of `fnd_status`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArguments {}

/// The arguments of `fnd_history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryArguments {
    pub(super) function: Option<String>,
    pub(super) state: Option<RunState>,
    #[serde(default = "runs")]
    pub(super) limit: u32,
}

/// The arguments of `fnd_logs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogsArguments {
    pub(super) id: String,
}

fn runs() -> u32 {
    RUNS
}

/// Reads the arguments of a tool.
///
/// # Errors
/// One is missing, is not known or has a wrong value.
pub(super) fn read<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, CommandFailure> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| CommandFailure::usage(format!("the arguments of `{tool}` are wrong: {error}")))
}

pub(super) fn status() -> JsonObject {
    schema(json!({}), &[])
}

pub(super) fn history() -> JsonObject {
    let properties = json!({
        "function": { "type": "string", "description": "Only runs of this function, such as `hello` or `web/resize`." },
        "state": { "type": "string", "enum": RunState::WORDS, "description": "Only runs in this state." },
        "limit": { "type": "integer", "minimum": 1, "maximum": RUNS_MAX, "default": RUNS, "description": "Most runs." },
    });
    schema(properties, &[])
}

pub(super) fn logs() -> JsonObject {
    let properties = json!({
        "id": { "type": "string", "format": "uuid", "description": "The id of the run, as `fnd_history` shows it." },
    });
    schema(properties, &["id"])
}

fn schema(properties: Value, required: &[&str]) -> JsonObject {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

#[cfg(test)]
mod tests {
    use super::{HistoryArguments, LogsArguments, read};
    use fnd_core::records::outcome::RunState;
    use rmcp::model::object;
    use serde_json::json;

    #[test]
    fn arguments_are_read_or_refused_with_the_name_of_the_tool() {
        let read = |value| read::<HistoryArguments>("fnd_history", object(value));
        let history = read(json!({ "function": "a", "state": "failed" })).unwrap();
        assert_eq!(
            (history.function.as_deref(), history.state, history.limit),
            (Some("a"), Some(RunState::Failed), 20)
        );
        for wrong in [
            json!({ "state": "success" }),
            json!({ "limit": "many" }),
            json!({ "since": "1h" }),
        ] {
            let message = read(wrong).unwrap_err().message;
            assert!(
                message.starts_with("the arguments of `fnd_history` are wrong: "),
                "{message}"
            );
        }
    }

    #[test]
    fn a_run_has_to_be_named() {
        assert!(read::<LogsArguments>("fnd_logs", object(json!({}))).is_err());
    }
}
