//! A function as the object that Kubeless has for it, for `-o json`, `-o yaml` and `--dryrun`.

use super::manifest::{AUTOSCALE, CRONJOBS, ROUTES};
use fnd_wire::units::{parse_duration, parse_size};
use serde_json::{Map, Value, json};

/// Returns the object; `manifest` may have all keys, or those that were written.
pub fn function(name: &str, manifest: &Value) -> Value {
    let text = |key: &str| manifest[key].as_str().unwrap_or_default();
    let limit = |key: &str| manifest["limits"][key].as_str();
    let memory = limit("memory").map(|text| memory(text).unwrap_or_else(|| text.to_owned()));
    let limits = [("memory", memory), ("cpu", limit("cpu").map(str::to_owned))].into_iter();
    let resources: Map<String, Value> = limits
        .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
        .collect();
    let env = manifest["env"].as_object().into_iter().flatten();
    let env: Vec<Value> = env.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let timeout = limit("timeout").and_then(|text| parse_duration(text).ok());
    // The default of Kubeless, in seconds.
    let timeout = timeout.map_or_else(|| "180".to_owned(), |timeout| timeout.as_secs().to_string());
    json!({
        "apiVersion": "kubeless.io/v1beta1",
        "kind": "Function",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels(manifest)},
        "spec": {
            "runtime": text("runtime"),
            "handler": text("handler"),
            "timeout": timeout,
            "deployment": {"spec": {"template": {"spec": {"containers": [{
                "env": env,
                // Kubeless requests as much as its limits allow, so both have the same amounts.
                "resources": {"limits": resources, "requests": resources},
            }]}}}},
        },
    })
}

/// Returns the row of an autoscale. `target` is the value of the label: the metric and its value.
pub fn autoscale(function: &str, manifest: &Value, target: &str) -> Value {
    let (metric, value) = target.split_once(':').unwrap_or((target, ""));
    let pool = &manifest["pool"];
    json!({
        "name": function, "namespace": NAMESPACE, "target": function,
        "min": pool["min"].to_string(), "max": pool["max"].to_string(), "metric": metric, "value": value,
    })
}

/// The value in columns and keys of the namespace.
pub const NAMESPACE: &str = "default";

/// Returns the labels of a function, without those in which names of triggers are kept.
pub fn labels(manifest: &Value) -> Map<String, Value> {
    let labels = manifest["labels"].as_object().into_iter().flatten();
    let own = labels.filter(|(name, _)| ![CRONJOBS, ROUTES, AUTOSCALE].contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a size of fnd as Kubernetes writes it: `128M` of fnd is `128Mi` there.
pub fn memory(text: &str) -> Option<String> {
    parse_size(text).ok()?;
    let unit = text.ends_with(|c: char| c.is_ascii_uppercase());
    Some(if unit { format!("{text}i") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_an_object_of_kubeless() {
        let manifest = json!({
            "runtime": "python", "handler": "helloget.foo", "env": {"foo": "bar"},
            "labels": {"foobar": "", "kubeless-cronjobs": "a"}, "limits": {"memory": "128M", "timeout": "3s"},
        });
        let object = function("get-python", &manifest);
        assert_eq!(object["metadata"]["labels"], json!({"foobar": ""}));
        assert_eq!(object["spec"]["timeout"], "3");
        let container = &object["spec"]["deployment"]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"], json!([{"name": "foo", "value": "bar"}]));
        assert_eq!(container["resources"]["limits"], json!({"memory": "128Mi"}));
        assert_eq!(function("f", &json!({}))["spec"]["timeout"], "180");
        assert_eq!(memory("1000").as_deref(), Some("1000"));
    }
}
