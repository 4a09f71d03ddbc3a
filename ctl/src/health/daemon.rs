//! Checks whether fnd answers, and its own status.

use super::finding::Finding;
use crate::client::Client;
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::{NodeState, NodeStatus};
use fnd_core::verify_report::FindingLevel;

const CHECK: &str = "daemon";

/// Returns the daemon's status of its node, or why there is none.
pub(crate) async fn inspect(client: &Client) -> Result<Box<NodeStatus>, CommandFailure> {
    parse(&client.get("/v1/status").await?.body)
}

/// Judges the answer. `own` is the version of this program.
pub(crate) fn judge(answer: &Result<Box<NodeStatus>, CommandFailure>, own: &str) -> Vec<Finding> {
    let node = match answer {
        Ok(node) => node,
        Err(failure) => {
            // fnd may run well: only this user may not ask it.
            let level = match failure.exit {
                Exit::NotAllowed => FindingLevel::Unknown,
                _ => FindingLevel::Error,
            };
            return vec![Finding {
                fix: failure.help.clone(),
                ..Finding::new(level, CHECK, &failure.message)
            }];
        }
    };
    let mut findings = vec![match node.state {
        NodeState::NoSpawner => Finding::error(CHECK, "fnd has lost its spawner: nothing can be started")
            .fix("sudo systemctl restart fnd; journalctl -u fnd-spawner says why"),
        NodeState::Draining => {
            Finding::warning(CHECK, "fnd is draining: it accepts nothing new").fix("sudo systemctl restart fnd")
        }
        NodeState::Running => Finding::ok(CHECK, format!("fnd is running, version {}", node.version)),
    }];
    if let Some(what) = outdated(node) {
        findings.push(
            Finding::warning("versions", what)
                .fix("this ends running functions: sudo systemctl stop fnd && sudo systemctl start fnd"),
        );
    }
    if node.version != own {
        let what = format!("fnd has version {}, fndctl has version {own}", node.version);
        findings
            .push(Finding::warning("versions", what).fix("sudo systemctl restart fnd (running functions continue)"));
    }
    findings
}

/// Returns a message if the spawner has another version than fnd: an upgrade leaves the spawner running, with the
/// functions.
pub(crate) fn outdated(node: &NodeStatus) -> Option<String> {
    let (fnd, spawner) = (&node.version, &node.spawner_version);
    (fnd != spawner).then(|| {
        format!(
            "fnd-spawner has version {spawner}, fnd has version {fnd}: the new fnd-spawner is used after its next start"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief, node};
    use super::*;

    fn says(version: &str, spawner: &str, state: &str) -> Result<Box<NodeStatus>, CommandFailure> {
        let json = serde_json::json!({"version": version, "spawner_version": spawner, "state": state});
        Ok(Box::new(node(&json)))
    }

    #[test]
    fn its_state_and_versions_are_judged() {
        for (answer, expected) in [
            (says("1", "1", "running"), vec!["ok fnd is running, version 1"]),
            (
                says("1", "1", "draining"),
                vec!["warning fnd is draining: it accepts nothing new"],
            ),
            (
                says("1", "1", "no-spawner"),
                vec!["error fnd has lost its spawner: nothing can be started"],
            ),
            (
                says("2", "1", "running"),
                vec![
                    "ok fnd is running, version 2",
                    "warning fnd-spawner has version 1, fnd has version 2: the new fnd-spawner is used after its next start",
                    "warning fnd has version 2, fndctl has version 1",
                ],
            ),
            (
                Err(CommandFailure::new(Exit::NotReachable, "nobody")),
                vec!["error nobody"],
            ),
            (
                Err(CommandFailure::new(Exit::NotAllowed, "not you")),
                vec!["unknown not you"],
            ),
        ] {
            assert_eq!(brief(&judge(&answer, "1")), expected);
        }
    }

    #[test]
    fn advice_is_kept() {
        let answer = Err(CommandFailure::new(Exit::NotReachable, "nobody").help("start it"));
        assert_eq!(judge(&answer, "1")[0].fix.as_deref(), Some("start it"));
    }
}
