//! Checks which layers of the sandbox the machine gives to functions.

use super::finding::Finding;
use fnd_core::api::{LAYERS, NodeStatus};

const CHECK: &str = "sandbox";

/// Judges the daemon's answer: the spawner has tried each layer when it started.
pub(crate) fn judge(node: Option<&NodeStatus>) -> Vec<Finding> {
    let Some(node) = node else { return Vec::new() };
    let lacking = |layer: &&str| node.not_enforced.contains_key(*layer);
    let missing: Vec<&str> = LAYERS.into_iter().filter(lacking).collect();
    let Some(first) = missing.first() else {
        return vec![Finding::ok(CHECK, "the machine gives every layer of the sandbox")];
    };
    let why = node.not_enforced.get(*first).map_or("", String::as_str);
    let what = format!("the sandbox of functions is without: {}: {why}", missing.join(", "));
    let fix = if missing == ["landlock"] {
        "Linux 6.12 and later have it; until then functions can send signals to other runs of the same function"
    } else {
        "run fnd as root, outside of a container; docs/sandbox.md says what each layer does"
    };
    vec![Finding::warning(CHECK, what).fix(fix)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief, node};
    use super::*;
    use serde_json::json;

    #[test]
    fn layers_that_are_not_in_force_are_named_with_the_reason() {
        assert!(judge(None).is_empty());
        let says = |not_enforced| node(&json!({ "not_enforced": not_enforced }));
        let all = judge(Some(&says(json!({ "io_read": "no such controller" }))));
        assert_eq!(brief(&all), ["ok the machine gives every layer of the sandbox"]);
        let some = judge(Some(&says(
            json!({ "pid": "not permitted", "mounts": "not permitted" }),
        )));
        assert_eq!(
            brief(&some),
            ["warning the sandbox of functions is without: mounts, pid: not permitted"]
        );
    }
}
