//! `GET /v1/openapi.json`: the description of the API. Its paths are written by hand, in `openapi.json`; the schemas of
//! bodies come from their types.

use super::VIEWER;
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, whole};
use serde_json::Value;
use std::sync::LazyLock;

pub(super) static ROUTES: &[super::ControlRoute] = &[route!(GET "/v1/openapi.json" List VIEWER "openapi", answer)];

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(include_str!("../openapi.json")).expect("a test reads it");
    document["components"]["schemas"] = fnd_core::api::components().into();
    format!("{document:#}")
});

pub(super) async fn answer(_: ControlCall) -> Result<Answered, Refusal> {
    Ok(whole("application/json", DOCUMENT.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::routes;
    use std::collections::BTreeSet;

    #[test]
    fn it_describes_every_route_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(&super::DOCUMENT).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods
                .as_object()
                .unwrap()
                .iter()
                .filter(|(key, _)| *key != "parameters")
            {
                let what = format!("{} {path}", method.to_uppercase());
                for field in ["summary", "operationId", "responses"] {
                    assert!(operation.get(field).is_some(), "{what} has no {field}");
                }
                described.insert(what);
            }
        }
        let there: BTreeSet<String> = routes()
            .map(|route| format!("{} {}", route.method, route.path.replace("...", "")))
            .collect();
        assert_eq!(described, there);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(document: &serde_json::Value, value: &serde_json::Value) {
            match value {
                serde_json::Value::Object(fields) => {
                    if let Some(reference) = fields.get("$ref").and_then(|reference| reference.as_str()) {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{reference}");
                    }
                    fields.values().for_each(|value| check(document, value));
                }
                serde_json::Value::Array(values) => values.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document: serde_json::Value = serde_json::from_str(&super::DOCUMENT).unwrap();
        check(&document, &document);
    }
}
