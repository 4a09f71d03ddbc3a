//! The payload of a call of `[alert]`, and what a person can do about it.

use super::{Alert, AlertCondition};
use crate::instant;
use fnd_wire::ids::FunctionName;
use serde::Serialize;

#[derive(Serialize)]
struct AlertBody<'a> {
    alert: &'static str,
    function: Option<&'a str>,
    since: String,
    message: &'a str,
    invocation: Option<String>,
    output: &'a str,
    help: String,
}

/// Returns the payload of a call, as JSON. `output` is the last lines that the function printed.
#[must_use]
pub fn payload(alert: &Alert, output: &str) -> Vec<u8> {
    let body = AlertBody {
        alert: alert.word.as_str(),
        function: alert.about.as_ref().map(FunctionName::as_str),
        since: instant::text(alert.since_ms),
        message: &alert.message,
        invocation: alert.invocation.map(|id| id.to_string()),
        output,
        help: help(alert),
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

fn help(alert: &Alert) -> String {
    let function = alert.about.as_ref().map_or("FUNCTION", FunctionName::as_str);
    match (alert.word, alert.invocation) {
        (AlertCondition::Failed, Some(id)) => format!(
            "`fndctl logs --id {id}` shows its output; when the cause is gone, `fndctl replay {id}` runs it again"
        ),
        (AlertCondition::Failed, None) => format!("`fndctl history {function}` shows the invocations"),
        (AlertCondition::CrashLooping, _) => format!("`fndctl logs {function}` shows why its processes end"),
        (AlertCondition::Invalid, _) => {
            format!("correct the file; `fndctl show {function}` shows the problems with their places")
        }
        (AlertCondition::Missed, _) => {
            format!("`fndctl history {function}` shows the invocations; `fndctl show {function}` its state")
        }
        (AlertCondition::Recovered, _) => "nothing has to be done".to_owned(),
        (AlertCondition::DiskFull, _) => {
            "make room on the disk of the state directory; `fndctl status` shows its free space".to_owned()
        }
        (AlertCondition::HistoryLost, _) => {
            "`fndctl status` shows how many records; the disk was full or too slow".to_owned()
        }
        (AlertCondition::SpawnerLost, _) => "`journalctl -u fnd-spawner` shows why".to_owned(),
        (AlertCondition::QueueFull, _) => {
            format!("`fndctl show {function}` shows its queue; raise `pool.max` or `queue.max`, or send less work")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::{FunctionName, InvocationId};
    use serde_json::{Value, json};

    #[test]
    fn a_call_gets_every_field() {
        let mut alert = Alert {
            about: Some(FunctionName::new("backup").unwrap()),
            word: AlertCondition::Failed,
            since_ms: 0,
            message: "exit 1".into(),
            invocation: Some(InvocationId(7)),
        };
        let body = |alert: &Alert| serde_json::from_slice::<Value>(&payload(alert, "no space")).unwrap();
        let id = InvocationId(7).to_string();
        let expected = json!({
            "alert": "failed", "function": "backup", "since": "1970-01-01T00:00:00.000Z", "message": "exit 1",
            "invocation": id, "output": "no space",
            "help": format!("`fndctl logs --id {id}` shows its output; when the cause is gone, `fndctl replay {id}` runs it again"),
        });
        assert_eq!(body(&alert), expected);
        alert.about = None;
        alert.invocation = None;
        for word in AlertCondition::ALL {
            alert.word = word;
            let body = body(&alert);
            assert!(body["function"].is_null() && body["invocation"].is_null());
            assert!(!body["help"].as_str().unwrap().is_empty());
        }
    }
}
