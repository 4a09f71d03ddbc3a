//! A document as lines of TOML, one key on each line.

use serde_json::Value;

/// Returns a document as lines `table.key = value`. Each is valid TOML; null values are left out.
pub(crate) fn flat(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    collect(value, "", &mut lines);
    lines
}

fn collect(value: &Value, path: &str, lines: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() || path.is_empty() => {
            for (key, value) in fields {
                let key = key_of_toml(key);
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                collect(value, &path, lines);
            }
        }
        other => lines.push(format!("{path} = {}", inline(other))),
    }
}

/// Returns a key as TOML has it.
fn key_of_toml(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_bare {
        key.to_owned()
    } else {
        // A JSON string is also a basic string of TOML, which a key with other characters must be.
        Value::from(key).to_string()
    }
}

/// Returns a value in TOML's inline form.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{} = {}", key_of_toml(key), inline(value)))
                .collect();
            if fields.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", fields.join(", "))
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_are_toml() {
        let value = serde_json::json!({
            "keep_versions": 5, "node": {"memory": null, "max_workers": 1000}, "access": [{"group": "fnd", "user": null}],
            "hooks": [{"a b": 1}, {"user": null}], "runtimes": {}, "sizes": {"A B": {"cpu": "1"}},
        });
        let lines = super::flat(&value);
        assert_eq!(
            lines,
            [
                "access = [{ group = \"fnd\" }]",
                "hooks = [{ \"a b\" = 1 }, {}]",
                "keep_versions = 5",
                "node.max_workers = 1000",
                "runtimes = {}",
                "sizes.\"A B\".cpu = \"1\"",
            ]
        );
    }
}
