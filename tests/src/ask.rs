//! Queries of a test to its fnd, in the types of the API.

use crate::client::Answer;
use crate::fnd::Fnd;
use crate::wait::{PATIENCE, wait_until};
use fnd_core::api::{AttemptView, FunctionStatus, InvocationList, InvocationView, LogLine, NodeStatus, Queued};
use fnd_wire::ids::InvocationId;
use std::fs;

impl Fnd {
    /// Returns the node's status.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        self.client().get("/v1/status").json()
    }

    /// Returns a function, if there is one of that name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<FunctionStatus> {
        let answer = self
            .client()
            .get(&format!("/v1/functions/{}", name.replace('/', "%2F")));
        (answer.status != hyper::StatusCode::NOT_FOUND).then(|| answer.json())
    }

    /// Waits until a function satisfies a condition, and returns it.
    ///
    /// # Panics
    /// When it doesn't in time.
    #[track_caller]
    #[must_use]
    pub fn wait_function(&self, name: &str, what: &str, is: impl Fn(&FunctionStatus) -> bool) -> FunctionStatus {
        wait_until(&format!("function `{name}` {what}"), PATIENCE, || {
            self.function(name).filter(&is)
        })
    }

    /// Waits until a function can be invoked, and returns it.
    ///
    /// # Panics
    /// When it isn't in time.
    #[track_caller]
    pub fn wait_ready(&self, name: &str) -> FunctionStatus {
        self.wait_function(name, "to be ready", |function| {
            let state = word(&function.state);
            (state == "ready" || state == "running") && function.version.is_some()
        })
    }

    /// Waits until the newest content of a function is refused, and returns the function.
    ///
    /// # Panics
    /// When it isn't in time.
    #[track_caller]
    #[must_use]
    pub fn wait_error(&self, name: &str) -> FunctionStatus {
        self.wait_function(name, "to have an error", |function| function.error.is_some())
    }

    /// Waits until there is no function of this name any more.
    ///
    /// # Panics
    /// When it still is after the deadline.
    #[track_caller]
    pub fn wait_gone(&self, name: &str) {
        wait_until(&format!("function `{name}` to be gone"), PATIENCE, || {
            self.function(name).is_none().then_some(())
        });
    }

    /// Waits for a problem of the node that contains `text`, and returns it. Files that belong to no function are such
    /// problems.
    ///
    /// # Panics
    /// When there is none in time.
    #[track_caller]
    #[must_use]
    pub fn wait_problem(&self, text: &str) -> String {
        wait_until(&format!("a problem that mentions {text:?}"), PATIENCE, || {
            self.status()
                .problems
                .into_iter()
                .find(|problem| problem.contains(text))
        })
    }

    /// Waits for an error about a file, of its function or as a problem of the node, and returns it.
    ///
    /// # Panics
    /// When nothing is said in time.
    #[track_caller]
    #[must_use]
    pub fn wait_problem_or_error(&self, name: &str) -> String {
        wait_until(&format!("something to be said about `{name}`"), PATIENCE, || {
            let error = self.function(name).and_then(|function| function.error);
            error.or_else(|| {
                self.status()
                    .problems
                    .into_iter()
                    .find(|problem| problem.contains(name))
            })
        })
    }

    /// Runs a function and waits for its answer, whatever it is. JSON payloads are sent as such; an empty one not at all.
    #[track_caller]
    #[must_use]
    pub fn invoke(&self, name: &str, json: &str) -> Answer {
        self.client()
            .post(&format!("/v1/functions/{}/invoke", name.replace('/', "%2F")), json)
    }

    /// Queues an invocation.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    #[must_use]
    pub fn queue(&self, name: &str, json: &str) -> InvocationId {
        let answer = self
            .client()
            .post(&format!("/v1/functions/{}/invocations", name.replace('/', "%2F")), json);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.json::<Queued>().id
    }

    /// Returns an invocation as it is now.
    #[must_use]
    pub fn invocation(&self, id: InvocationId) -> InvocationView {
        self.client().get(&format!("/v1/invocations/{id}")).json()
    }

    /// Returns an invocation when it satisfies a condition.
    ///
    /// # Panics
    /// When it doesn't in time.
    #[track_caller]
    #[must_use]
    pub fn wait_invocation(
        &self,
        id: InvocationId,
        what: &str,
        is: impl Fn(&InvocationView) -> bool,
    ) -> InvocationView {
        wait_until(&format!("invocation {id} {what}"), PATIENCE, || {
            // On a slow disk an invocation that has just ended may not be stored yet.
            let answer = self.client().get(&format!("/v1/invocations/{id}"));
            (answer.status != 404).then(|| answer.json()).filter(&is)
        })
    }

    /// Returns an invocation after its end.
    ///
    /// # Panics
    /// When it doesn't end in time.
    #[track_caller]
    pub fn wait_end(&self, id: InvocationId) -> InvocationView {
        self.wait_invocation(id, "to end", |view| view.state.is_final())
    }

    /// Returns the id in an answer of `invoke`.
    ///
    /// # Panics
    /// When it has none.
    #[track_caller]
    #[must_use]
    pub fn id_of(answer: &Answer) -> InvocationId {
        let id = answer.header("fnd-invocation").and_then(InvocationId::parse);
        id.unwrap_or_else(|| panic!("no Fnd-Invocation in {answer:?}"))
    }

    /// Runs a function and returns its answer with the final record.
    ///
    /// # Panics
    /// When it is not accepted, or does not end.
    #[track_caller]
    #[must_use]
    pub fn run(&self, name: &str, json: &str) -> (Answer, InvocationView) {
        let answer = self.invoke(name, json);
        let view = self.wait_end(Self::id_of(&answer));
        (answer, view)
    }

    /// Returns a function's invocations, newest first.
    #[must_use]
    pub fn history(&self, name: &str) -> Vec<InvocationView> {
        let path = format!("/v1/invocations?limit=1000&function={}", name.replace('/', "%2F"));
        self.client().get(&path).json::<InvocationList>().invocations
    }

    /// Returns the final record of the newest invocation of a function.
    ///
    /// # Panics
    /// When none ended in time.
    #[track_caller]
    pub fn wait_run(&self, name: &str) -> InvocationView {
        let id = wait_until(&format!("a finished run of `{name}`"), PATIENCE, || {
            self.history(name).into_iter().find(|view| view.state.is_final())
        });
        self.invocation(id.id)
    }

    /// Returns the kept output of an invocation.
    #[must_use]
    pub fn logs(&self, id: InvocationId) -> Vec<LogLine> {
        #[derive(serde::Deserialize)]
        struct Lines {
            lines: Vec<LogLine>,
        }
        self.client()
            .get(&format!("/v1/invocations/{id}/logs?limit=10000"))
            .json::<Lines>()
            .lines
    }

    /// Returns the result of an ended invocation, byte for byte.
    #[must_use]
    pub fn result(&self, id: InvocationId) -> Answer {
        self.client().get(&format!("/v1/invocations/{id}/result"))
    }

    /// Waits until a function's status file has this status, and returns it. The file follows the answer after some
    /// milliseconds.
    ///
    /// # Panics
    /// When it doesn't in time.
    #[track_caller]
    #[must_use]
    pub fn wait_status_file(&self, name: &str, status: &str) -> serde_json::Value {
        wait_until(&format!("the status file of {name} to say {status}"), PATIENCE, || {
            self.status_file(name).filter(|file| file["status"] == status)
        })
    }

    /// Waits until the log has a text; a thread of fnd writes the log.
    ///
    /// # Panics
    /// When it doesn't in time.
    #[track_caller]
    pub fn wait_log(&self, text: &str) {
        wait_until(&format!("the log to say {text:?}"), PATIENCE, || {
            self.log().contains(text).then_some(())
        });
    }

    /// Returns a function's status file, if there is one. It is whole or absent at any moment.
    ///
    /// # Panics
    /// When it is torn.
    #[track_caller]
    #[must_use]
    pub fn status_file(&self, name: &str) -> Option<serde_json::Value> {
        let path = self.path("run/status").join(format!("{}.json", name.replace('/', ".")));
        let bytes = fs::read(&path).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{} is torn: {error}", path.display())))
    }
}

/// Returns the word for a value in JSON, such as `ready` for a state.
///
/// # Panics
/// When it is not written as text.
#[must_use]
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        other => panic!("not a word: {other:?}"),
    }
}

/// Returns the gaps in milliseconds between the end of each attempt and the start of the next.
///
/// # Panics
/// When an instant is not RFC 3339 in UTC with milliseconds.
#[must_use]
pub fn gaps_ms(attempts: &[AttemptView]) -> Vec<i64> {
    attempts
        .windows(2)
        .map(|pair| millis(&pair[1].started_at) - millis(&pair[0].ended_at))
        .collect()
}

/// Returns the milliseconds within the day of an instant `2026-11-21T08:00:00.123Z`, counted on over one midnight.
fn millis(instant: &str) -> i64 {
    let number = |from: usize, to: usize| instant.get(from..to).and_then(|text| text.parse::<i64>().ok());
    let parts = (
        number(8, 10),
        number(11, 13),
        number(14, 16),
        number(17, 19),
        number(20, 23),
    );
    let (Some(day), Some(hour), Some(minute), Some(second), Some(milli)) = parts else {
        panic!("{instant:?} is not an instant such as 2026-11-21T08:00:00.123Z");
    };
    (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli
}
