//! The page "Node": its problems with what to do, limits, disk, sandbox, event sources; for admins the audit.

use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::same;
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{empty, function_link, run_link, table, terms, word};
use crate::parts::text::{amount, dash, duration, number, or_dash, size, time};
use fnd_core::api::problem::Code;
use fnd_core::api::{AuditEntry, AuditList, LAYERS, NatsState, NatsTriggerView, NatsView, NodeState, NodeStatus};
use fnd_manifest::settings::Role;
use futures_util::future::try_join;
use maud::{Markup, html};
use serde_json::Value;

/// # Errors
/// fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let node = api.get::<NodeStatus>("/v1/status?functions=0");
    let (visit, node) = try_join(Visit::of(request, api), node).await?;
    let config = if visit.node_role().is_some() {
        api.get::<Value>("/v1/config").await?
    } else {
        Value::Null
    };
    let nats = match api.get::<NatsView>("/v1/nats").await {
        Ok(nats) => Some(nats),
        // `fnd.toml` has no server of NATS.
        Err(Failure::Refused(problem)) if problem.code == Code::NotConfigured.as_str() => None,
        Err(failure) => return Err(failure),
    };
    let audit = if visit.node_role() == Some(Role::Admin) {
        Some(api.get::<AuditList>("/v1/audit?limit=50").await?)
    } else {
        None
    };
    Ok(view(&visit, &node, (&config, nats.as_ref(), audit.as_ref())))
}

type More<'a> = (&'a Value, Option<&'a NatsView>, Option<&'a AuditList>);

fn view(visit: &Visit, node: &NodeStatus, (config, nats, audit): More<'_>) -> Response {
    let body = html! {
        @if visit.node_role().is_none() {
            p.note { "Your roles are for some functions only: problems, disk and limits need a role for the node." }
        }
        (section("problems", "Problems", &problems(visit, node)))
        (section("state", "State", &state(visit, node)))
        (section("layers", "Sandbox and limits", &layers(node)))
        (section("budget", "Budget", &budget(config)))
        (section("sources", "Event sources", &sources(visit, nats)))
        @if let Some(audit) = audit { (section("audit", "Audit", &audited(visit, audit))) }
        (same("fndctl status -o wide"))
        (same("fndctl doctor"))
    };
    page(visit, &Page::live("Node", "/node", body))
}

fn problems(visit: &Visit, node: &NodeStatus) -> Markup {
    html! {
        @if visit.node_role().is_none() { (empty("Problems are shown to those with a role for the node.")) }
        @else if node.problems.is_empty() { (empty("There are no problems.")) }
        ul.attention { @for problem in &node.problems { li { (word("problem", "bad")) p.said { (problem) } } } }
        @if node.unclaimed_count > 0 {
            p { (amount(node.unclaimed_count, "file is no function", "files are no functions")) ": " (node.unclaimed.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", "))
                ". " code { "fndctl doctor" } " says what to do." }
        }
    }
}

fn state(visit: &Visit, node: &NodeStatus) -> Markup {
    let class = match node.state {
        NodeState::Running => "good",
        NodeState::Draining => "wait",
        NodeState::NoSpawner => "bad",
    };
    let by_state = node.functions_by_state.iter();
    let by_state: Vec<_> = by_state.map(|(state, count)| format!("{count} {state}")).collect();
    let mut all = vec![
        ("State", word(node.state.as_str(), class)),
        ("Version", html! { (node.version) ", spawner " (node.spawner_version) }),
        ("Started", time(&node.started_at, visit.now)),
        ("Functions", or_dash(&by_state.join(", "))),
        (
            "Runs",
            html! { (node.running) " running, " (node.queued) " waiting, " (amount(node.dead_letters, "dead letter", "dead letters")) },
        ),
    ];
    if node.memory_bytes > 0 {
        all.push(("Memory of fnd", html! { (size(Some(node.memory_bytes))) }));
    }
    if let Some(disk) = &node.disk {
        let of = |used, kept| html! { (size(Some(used))) " of " (size(Some(kept))) };
        all.push(("History on disk", of(disk.history_bytes, disk.history_keep_bytes)));
        all.push(("Output on disk", of(disk.logs_bytes, disk.logs_keep_bytes)));
        all.push(("Packages", html! { (size(Some(disk.packages_bytes))) }));
        all.push(("Free on the disk", or_dash(&size(disk.free_bytes))));
    }
    terms(&all)
}

/// Returns each layer of the sandbox and each limit with whether it holds here.
fn layers(node: &NodeStatus) -> Markup {
    let missing = |name: &str| node.not_enforced.get(name).map(String::as_str);
    let row = |name: &str, why: Option<&str>| {
        html! {
            tr {
                th scope="row" { (name) }
                td { @match why { Some(_) => (word("not enforced", "bad")), None => (word("enforced", "good")), } }
                td.text { (or_dash(why.unwrap_or_default())) }
            }
        }
    };
    let limits = node
        .not_enforced
        .iter()
        .filter(|(name, _)| !LAYERS.contains(&name.as_str()));
    let limits = limits.map(|(name, why)| row(name, Some(why.as_str())));
    let rows: Vec<_> = LAYERS
        .into_iter()
        .map(|name| row(name, missing(name)))
        .chain(limits)
        .collect();
    html! {
        (terms(&[("Cgroups", or_dash(&node.cgroups)), ("Processes are held together by", or_dash(&node.containment))]))
        (table("Sandbox", &["Layer or limit", "State", "Why"], &rows))
        p.hint { "A limit that is not named here is enforced." }
    }
}

/// Returns the settings of `[node]` as in force.
fn budget(config: &Value) -> Markup {
    let keys = config["node"].as_object().into_iter().flatten();
    let row = |(key, value): (&String, &Value)| {
        // The API has `cpu` in thousandths of a core, and its unit in the name.
        let (key, unit) = key.strip_suffix("_milli").map_or((key.as_str(), ""), |key| (key, "m"));
        let value = Some(plain(value)).filter(|text| !text.is_empty());
        html! { tr { th scope="row" { code { (key) } } td { (or_dash(&value.map(|text| text + unit).unwrap_or_default())) } } }
    };
    let rows: Vec<_> = keys.map(row).collect();
    html! {
        @if rows.is_empty() { (empty("The budget is shown to those with a role for the node.")) } @else { (table("Budget", &["Key of [node]", "In force"], &rows)) }
    }
}

/// Returns a value of a setting without quotation marks; nothing for null.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn sources(visit: &Visit, nats: Option<&NatsView>) -> Markup {
    let Some(nats) = nats else {
        return empty("No server of NATS is set. Events come by HTTP, or by fndctl emit.");
    };
    let connection = if nats.connected {
        word("connected", "good")
    } else {
        word("not connected", "bad")
    };
    let rows: Vec<_> = nats.triggers.iter().map(source).collect();
    html! {
        (terms(&[
            ("NATS", html! { (connection) " since " (time(&nats.since, visit.now)) }),
            ("Server", or_dash(nats.server.as_deref().unwrap_or_default())),
            ("Round trip", or_dash(&duration(nats.round_trip_ms))),
            ("Problem", or_dash(nats.error.as_deref().unwrap_or_default())),
        ]))
        @if !rows.is_empty() { (table("Event sources", &["Function", "Subject", "Stream", "State", "#Pending", "#Here", "#Redelivered", "Problem"], &rows)) }
    }
}

fn source(one: &NatsTriggerView) -> Markup {
    let class = match one.state {
        NatsState::Consuming | NatsState::Full => "good",
        NatsState::Paused => "wait",
        NatsState::Gone | NatsState::Stalled => "bad",
        NatsState::Disabled => "dim",
    };
    let count = |count: Option<u64>| count.map_or_else(dash, |count| html! { (number(count)) });
    html! {
        tr {
            th scope="row" { (function_link(one.function.as_str())) }
            td { code { (one.subject) } }
            td { (or_dash(one.stream.as_deref().unwrap_or_default())) }
            td { (word(one.state.as_str(), class)) }
            td.number { (count(one.pending)) }
            td.number { (number(one.here)) }
            td.number { (count(one.redelivered)) }
            td.text { (or_dash(one.error.as_deref().unwrap_or_default())) }
        }
    }
}

fn audited(visit: &Visit, audit: &AuditList) -> Markup {
    let row = |entry: &AuditEntry| {
        let user = entry.user.clone().unwrap_or_else(|| entry.uid.to_string());
        let answer = entry.status.map(|status| status.to_string()).unwrap_or_default();
        let function = entry.function.as_ref();
        html! {
            tr {
                th scope="row" { (time(&entry.time, visit.now)) }
                td { (user) }
                td { (entry.verb) }
                td { @match function { Some(function) => (function_link(function.as_str())), None => (dash()), } }
                td { @match entry.invocation { Some(id) => (run_link(&id.to_string())), None => (dash()), } }
                td { @if entry.refused { (word("refused", "bad")) " " } (or_dash(&answer)) @if let Some(code) = &entry.code { " " (code) } }
                td.number { (entry.count) }
            }
        }
    };
    let rows: Vec<_> = audit.entries.iter().map(row).collect();
    html! {
        @if rows.is_empty() { (empty("Nobody has changed anything yet.")) }
        @else { (table("Audit", &["Time", "User", "What", "Function", "Run", "Answer", "#Times"], &rows)) }
        (same("fndctl audit"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::frame::tests::{text, visit};
    use serde_json::json;

    fn node() -> NodeStatus {
        serde_json::from_value(json!({
            "version": "1.2.0", "spawner_version": "1.2.0", "state": "running", "started_at": "2026-11-21T07:00:00.000Z",
            "node": "vm1", "cgroups": "v2", "containment": "cgroup", "not_enforced": {"landlock": "the kernel lacks it", "io": "no io controller"},
            "memory_bytes": 1 << 20, "running": 1, "queued": 0, "functions_by_state": {"ready": 3}, "problems": ["`<x>` is full"],
            "functions": [], "dead_letters": 0,
        }))
        .unwrap()
    }

    #[test]
    fn a_node_shows_what_does_not_hold() {
        let config = json!({"node": {"memory": "4G", "cpu": null}});
        let html = text(view(&visit(Some(Role::Viewer)), &node(), (&config, None, None)));
        for expected in [
            "`&lt;x&gt;` is full",
            "<th scope=\"row\">landlock</th><td><span class=\"state bad\">not enforced</span></td><td class=\"text\">the kernel lacks it</td>",
            "<th scope=\"row\">io</th>",
            "<th scope=\"row\">seccomp</th><td><span class=\"state good\">enforced</span></td>",
            "<code>memory</code></th><td>4G</td>",
            "3 ready",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(!html.contains("id=\"audit\""));
    }

    #[test]
    fn without_a_role_for_the_node_the_page_says_so() {
        let html = text(view(&visit(None), &node(), (&Value::Null, None, None)));
        assert!(html.contains("need a role for the node"), "{html}");
    }
}
