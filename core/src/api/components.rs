//! The schemas of all bodies, for the description of the API. Names, fields and words come from the types, descriptions
//! from their comments; what a path takes and answers is written in the daemon's `openapi.json`.

use super::*;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Returns the schemas by their names in `#/components/schemas`.
#[must_use]
pub fn components() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    // Types that occur in these come by themselves.
    macro_rules! add {
        ($($body:ty),+ $(,)?) => { $(generator.subschema_for::<$body>();)+ };
    }
    add!(
        AuditList,
        BatchAccepted,
        CallerView,
        Changed,
        DeadLetterList,
        EventAccepted,
        FunctionChange,
        FunctionDetail,
        FunctionList,
        InvocationList,
        LogLevel,
        LogList,
        NatsView,
        NodeStatus,
        Overview,
        Problem,
        PublishedMessage,
        Queued,
        ReleaseChanged,
        ReleaseFiles,
        ReleaseList,
        ReleasedClaim,
        ReloadReport,
        RemovedFunction,
        RouteList,
        RouteTest,
        RouteTestReport,
        RuntimeList,
        ScheduleList,
        ShellTarget,
        SizeList,
        StateEntry,
        StateKeys,
        StateScopes,
        StateWritten,
        UsageList,
        stream::StreamEvent,
        ValidateReport,
        ValidateRequest,
    );
    let mut components = generator.take_definitions(false);
    components.values_mut().for_each(tidy);
    components
}

/// Removes from the schema of a body what serde knows of its type and clients cannot see.
fn tidy(body: &mut Value) {
    let required = body["required"].as_array().cloned().unwrap_or_default();
    let Some(fields) = body.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, field) in fields {
        let Some(field) = field.as_object_mut() else { continue };
        // It is for fields that an older fnd does not send; this fnd describes what it sends itself.
        field.remove("default");
        if !required.contains(&Value::from(name.as_str())) {
            not_null(field);
        }
    }
}

/// Removes null from the schema of a field that is left out where it would be null.
fn not_null(field: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = field.get("type") {
        let only = types.iter().find(|name| *name != "null").cloned();
        field.insert("type".to_owned(), only.into());
    }
    if let Some(Value::Array(choices)) = field.remove("anyOf") {
        let other = choices.into_iter().find(|choice| choice["type"] != "null");
        field.extend(other.as_ref().and_then(Value::as_object).cloned().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_is_left_out_or_null_but_not_both() {
        let components = components();
        let field = |body: &str, name: &str| components[body]["properties"][name].clone();
        let required = |body: &str, name: &str| components[body]["required"].as_array().unwrap().contains(&name.into());
        for (body, name, of_type) in [
            ("StreamEvent", "attempt", json!("integer")),
            ("StreamEvent", "states", json!("array")),
            ("Diagnostic", "notes", json!("array")),
            ("InvocationView", "started_at", json!(["string", "null"])),
            ("FunctionStatus", "memory_bytes", json!(["integer", "null"])),
            ("FunctionStatus", "dead_letters", json!("integer")),
            ("FunctionDetail", "manifest", json!(["object", "null"])),
        ] {
            let may_be_null = of_type.is_array();
            assert_eq!(field(body, name)["type"], of_type, "{body}.{name}");
            assert_eq!(field(body, name).get("default"), None, "{body}.{name}");
            assert!(!may_be_null || required(body, name), "{body}.{name}");
        }
        assert!(!required("StreamEvent", "attempt"));
        let trigger = "#/components/schemas/Trigger";
        assert_eq!(field("StreamEvent", "trigger")["$ref"], trigger);
        let or_null = json!([{"$ref": trigger}, {"type": "null"}]);
        assert_eq!(field("FunctionStatus", "trigger")["anyOf"], or_null);
    }
}
