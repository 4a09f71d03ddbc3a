//! The list of tools: the functions that ask for it, and three tools that only read.

use super::arguments::{self, HISTORY, LOGS, STATUS};
use super::session::McpSession;
use crate::common::answers;
use crate::context::function_path;
use crate::exit::{CommandFailure, Exit};
use fnd_wire::ids::FunctionName;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::Value;

/// The tools of this moment.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ToolCatalog {
    pub(super) tools: Vec<Tool>,
    /// Why functions that ask for it are no tools, one line each.
    pub(super) left_out: Vec<String>,
}

/// The fields of `GET /v1/functions` that matter here. With ten thousand functions, the others would take most of the time.
#[derive(Debug, Deserialize)]
struct ToolCandidates {
    functions: Vec<ToolCandidate>,
}

#[derive(Debug, Deserialize)]
struct ToolCandidate {
    function: String,
    #[serde(default)]
    mcp: bool,
}

/// The fields of `GET /v1/functions/NAME` that make a tool.
#[derive(Debug, Deserialize)]
pub(super) struct ToolFunction {
    #[serde(default)]
    mcp: bool,
    /// The JSON Schema of the payload.
    #[serde(default)]
    input: Option<Value>,
    /// The manifest; null while no version of the function was installed.
    #[serde(default)]
    manifest: Value,
}

/// Reads the list of tools.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(super) async fn read(session: &McpSession) -> Result<ToolCatalog, CommandFailure> {
    let list: ToolCandidates = answers::read(&session.client, "/v1/functions").await?;
    let mut catalog = ToolCatalog {
        tools: vec![status(), history(), logs()],
        left_out: Vec::new(),
    };
    for listed in list.functions {
        if !listed.mcp || !session.allows(&listed.function) {
            continue;
        }
        match describe(session, &listed.function).await {
            Ok(function) => catalog.add(&listed.function, &function),
            // It was removed after it was listed.
            Err(failure) if failure.exit == Exit::NoSuchThing => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(catalog)
}

/// Returns a function if it is a tool now. A function that does not exist is none.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(super) async fn find(
    session: &McpSession,
    function: &FunctionName,
) -> Result<Option<ToolFunction>, CommandFailure> {
    match describe(session, function.as_str()).await {
        Ok(function) => Ok(Some(function).filter(|function| function.mcp)),
        Err(failure) if failure.exit == Exit::NoSuchThing => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn describe(session: &McpSession, function: &str) -> Result<ToolFunction, CommandFailure> {
    answers::read(&session.client, &function_path(function)?).await
}

impl ToolFunction {
    /// Returns the payload of a call. Without arguments and without a schema there is none, so that a script gets the `data` of
    /// its manifest; with a schema fnd says which fields are missing.
    pub(super) fn payload(&self, arguments: JsonObject) -> Option<JsonObject> {
        Some(arguments).filter(|arguments| !arguments.is_empty() || self.input.is_some())
    }
}

impl ToolCatalog {
    /// Adds the tool of a function, or why it is none.
    fn add(&mut self, name: &str, function: &ToolFunction) {
        // No part of a name has a dot, so no two functions have one tool.
        let tool = name.replace('/', ".");
        if self.tools.iter().any(|other| other.name == tool) {
            self.left_out.push(format!(
                "function `{name}` is no tool: fnd's own tool has its name; another name makes it one"
            ));
            return;
        }
        let Some(schema) = object_schema(function.input.as_ref()) else {
            self.left_out.push(format!(
                "function `{name}` is no tool: the arguments of a tool are an object, and the schema of its payload \
                 (`[input] schema`) asks for another type; `type = \"object\"` makes it one"
            ));
            return;
        };
        let described = function.manifest.get("description").and_then(Value::as_str);
        let description = described.map_or_else(|| format!("Runs the function `{name}` of fnd."), str::to_owned);
        self.tools.push(Tool::new(tool, description, schema));
    }
}

/// Returns the schema of a tool's arguments; nothing if the payload is no object.
fn object_schema(input: Option<&Value>) -> Option<JsonObject> {
    let mut schema = match input {
        None => JsonObject::new(),
        Some(Value::Object(schema)) => schema.clone(),
        Some(_) => return None,
    };
    let allows_object = match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
    };
    // The protocol asks for the type by its name.
    schema.insert("type".to_owned(), "object".into());
    allows_object.then_some(schema)
}

fn status() -> Tool {
    let text =
        "Shows the state of fnd: problems of the node, and all functions with their last run, those that failed first.";
    own(STATUS, text, arguments::status())
}

fn history() -> Tool {
    own(HISTORY, "Lists runs of functions, newest first.", arguments::history())
}

fn logs() -> Tool {
    own(LOGS, "Shows what a run printed: its newest lines.", arguments::logs())
}

/// Returns a tool that changes nothing.
fn own(name: &'static str, description: &'static str, schema: JsonObject) -> Tool {
    Tool::new(name, description, schema).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

#[cfg(test)]
mod tests {
    use super::{ToolCatalog, ToolFunction, object_schema};
    use serde_json::json;

    #[test]
    fn arguments_are_an_object() {
        for (input, expected) in [
            (None, Some(json!({ "type": "object" }))),
            (Some(json!({})), Some(json!({ "type": "object" }))),
            (
                Some(json!({ "properties": { "a": true } })),
                Some(json!({ "type": "object", "properties": { "a": true } })),
            ),
            (
                Some(json!({ "type": ["null", "object"] })),
                Some(json!({ "type": "object" })),
            ),
            (Some(json!({ "type": "string" })), None),
            (Some(json!({ "type": ["string", "null"] })), None),
            (Some(json!(true)), None),
        ] {
            let schema = object_schema(input.as_ref()).map(serde_json::Value::Object);
            assert_eq!(schema, expected, "{input:?}");
        }
    }

    #[test]
    fn every_function_is_a_tool_or_the_client_is_told_why_not() {
        let function = |document| serde_json::from_value::<ToolFunction>(document).unwrap();
        let mut catalog = ToolCatalog {
            tools: vec![super::logs()],
            left_out: Vec::new(),
        };
        catalog.add(
            "web/resize",
            &function(json!({ "manifest": { "description": "Makes it small" } })),
        );
        catalog.add("hello", &function(json!({ "manifest": null })));
        catalog.add("fnd_logs", &function(json!({})));
        catalog.add("words", &function(json!({ "input": { "type": "array" } })));
        let shown: Vec<_> = catalog
            .tools
            .iter()
            .map(|tool| (tool.name.as_ref(), tool.description.as_deref()))
            .collect();
        assert_eq!(
            shown[1..],
            [
                ("web.resize", Some("Makes it small")),
                ("hello", Some("Runs the function `hello` of fnd.")),
            ]
        );
        let reasons = catalog.left_out.join("\n");
        assert!(
            reasons.contains("`fnd_logs` is no tool: fnd's own tool") && reasons.contains("`words` is no tool"),
            "{reasons}"
        );
    }
}
