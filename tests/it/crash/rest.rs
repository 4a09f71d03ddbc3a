//! Waits until all work has ended, and reports what has not.

use super::findings::short;
use super::functions::FUNCTIONS;
use fnd_core::api::{FunctionStatus, InvocationList, NodeStatus};
use fnd_core::records::outcome::RunState;
use fnd_tests::Fnd;
use fnd_tests::wait::PATIENCE;
use serde::de::DeserializeOwned;

/// Most invocations of a state that are named.
const NAMED: usize = 10;

/// An fnd that finishes its work: in the end every invocation has ended, and every function is ready.
pub(crate) struct Rest<'a> {
    pub(crate) fnd: &'a Fnd,
    /// Functions beside [`FUNCTIONS`].
    pub(crate) others: &'a [&'a str],
    /// The service among them, which always runs.
    pub(crate) service: Option<&'a str>,
    /// How to make the same choices again.
    pub(crate) again: &'a str,
}

impl Rest<'_> {
    /// Waits until all work has ended.
    ///
    /// # Panics
    /// If something has not ended in time. The message says what it is, its state, and what may explain it.
    pub(crate) fn wait(&self) {
        let begun = fnd_tests::now();
        loop {
            let busy = self.busy();
            if busy.is_empty() {
                return;
            }
            let waited = begun.elapsed();
            assert!(
                waited < PATIENCE * 2,
                "{}: not at rest after {} s:\n{}",
                self.again,
                waited.as_secs(),
                [busy, self.around()].concat().join("\n")
            );
            fnd_tests::wait::pause();
        }
    }

    /// Returns the work that has not ended.
    fn busy(&self) -> Vec<String> {
        let Some(status) = self.get::<NodeStatus>("/v1/status") else {
            return vec!["fnd does not answer".to_owned()];
        };
        let names = FUNCTIONS.iter().map(|function| function.name);
        let mut busy = Vec::new();
        for name in names.chain(self.others.iter().copied()) {
            let mut functions = status.functions.iter();
            match functions.find(|function| function.function.as_str() == name) {
                None => busy.push(format!("{name} does not exist")),
                Some(function) if self.rests(function) => {}
                Some(function) => busy.push(words(function)),
            }
        }
        let NodeStatus { running, queued, .. } = status;
        if running != u32::from(self.service.is_some()) || queued != 0 {
            busy.push(format!("on the node: {running} running, {queued} queued"));
        }
        busy
    }

    fn rests(&self, function: &FunctionStatus) -> bool {
        let is_service = self.service == Some(function.function.as_str());
        let state = if is_service { "running" } else { "ready" };
        function.state.as_str() == state && function.running == u32::from(is_service) && function.queued == 0
    }

    /// Returns possible explanations: invocations without an end, problems of the node, processes.
    fn around(&self) -> Vec<String> {
        let mut all = Vec::new();
        for state in RunState::ALL.into_iter().filter(|state| !state.is_final()) {
            let list = self.get::<InvocationList>(&format!("/v1/invocations?limit=1000&state={}", state.as_str()));
            let list = list.map(|list| list.invocations).unwrap_or_default();
            all.extend(list.iter().take(NAMED).map(short));
            if list.len() > NAMED {
                all.push(format!("and {} more are {}", list.len() - NAMED, state.as_str()));
            }
        }
        if let Some(status) = self.get::<NodeStatus>("/v1/status") {
            all.push(format!("fnd is {}", status.state.as_str()));
            all.extend(status.problems.into_iter().map(|problem| format!("problem: {problem}")));
        }
        all.extend(self.fnd.mark().processes());
        all
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let answer = self.fnd.client().try_call("GET", path, &[], b"").ok()?;
        answer.status.is_success().then(|| answer.json())
    }
}

fn words(function: &FunctionStatus) -> String {
    let FunctionStatus {
        function,
        state,
        running,
        queued,
        message,
        error,
        next_attempt_at,
        ..
    } = function;
    let state = state.as_str();
    format!(
        "{function} is {state}, {running} running, {queued} queued, next attempt {next_attempt_at:?}, last message {message:?}, \
         error {error:?}"
    )
}
