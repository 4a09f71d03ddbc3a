//! The book of the calls in flight: which wait for a `next`, and which a client may answer. Each call is answered once.
//!
//! ```text
//! waiting ──next──▶ given ──response or error begins──▶ answering ──▶ gone
//! ```

use super::frames::Invocation;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct CallBook {
    waiting: VecDeque<Invocation>,
    /// The calls that a client has got, in the order in which fnd numbered them.
    given: BTreeMap<u64, GivenCall>,
}

#[derive(Debug)]
struct GivenCall {
    id: String,
    is_answering: bool,
}

impl CallBook {
    pub(super) fn add(&mut self, invocation: Invocation) {
        self.waiting.push_back(invocation);
    }

    /// Returns the call that has waited longest, which the client then has.
    pub(super) fn next(&mut self) -> Option<Invocation> {
        let invocation = self.waiting.pop_front()?;
        let given = GivenCall {
            id: invocation.id.clone(),
            is_answering: false,
        };
        self.given.insert(invocation.call, given);
        Some(invocation)
    }

    /// Returns the call that an answer is for; nothing if no client has this invocation, or if its answer has begun.
    ///
    /// A client that knows the header `Lambda-Runtime-Invocation-Id` sends it back. It is the number of the call, which no later
    /// attempt at the same invocation has: so the late answer to an attempt is not taken for that of the next one.
    pub(super) fn begin_answer(&mut self, id: &str, number: Option<&str>) -> Option<u64> {
        let is_meant = |call: &u64| number.is_none_or(|number| number.parse::<u64>() == Ok(*call));
        let is_open = |given: &GivenCall| given.id == id && !given.is_answering;
        let mut calls = self.given.iter_mut();
        let (call, given) = calls.find(|(call, given)| is_meant(call) && is_open(given))?;
        given.is_answering = true;
        Some(*call)
    }

    /// Says whether a client has a call, and its answer is not complete.
    pub(super) fn is_given(&self, call: u64) -> bool {
        self.given.contains_key(&call)
    }

    /// Forgets a call, which has its answer, and says whether it had none before.
    pub(super) fn end(&mut self, call: u64) -> bool {
        self.given.remove(&call).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.given.is_empty()
    }

    /// Takes out all calls that have no answer.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        let waiting = self.waiting.drain(..).map(|invocation| invocation.call);
        let given = std::mem::take(&mut self.given).into_keys();
        given.chain(waiting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    fn call(call: u64, id: &str) -> Invocation {
        Invocation {
            call,
            id: id.to_owned(),
            traceparent: String::new(),
            deadline_ms: None,
            content_type: None,
            event: Bytes::new(),
        }
    }

    #[test]
    fn calls_are_given_in_order() {
        let mut book = CallBook::default();
        assert!(book.is_empty() && book.next().is_none());
        book.add(call(1, "a"));
        book.add(call(2, "b"));
        let ids: Vec<String> = std::iter::from_fn(|| book.next()).map(|call| call.id).collect();
        assert_eq!(ids, ["a", "b"]);
        assert!(!book.is_empty());
        book.end(2);
        book.end(1);
        assert!(book.is_empty());
    }

    #[test]
    fn a_call_is_answered_once() {
        let mut book = CallBook::default();
        book.add(call(1, "a"));
        assert_eq!(book.begin_answer("a", None), None, "no client has it yet");
        book.next();
        assert_eq!(book.begin_answer("b", None), None, "unknown");
        assert_eq!(book.begin_answer("a", Some("2")), None, "another attempt");
        assert_eq!(book.begin_answer("a", Some("x")), None, "no number");
        assert_eq!(book.begin_answer("a", Some("1")), Some(1));
        assert_eq!(book.begin_answer("a", None), None, "its answer has begun");
        book.end(1);
        assert_eq!(book.begin_answer("a", None), None, "it has its answer");
        book.add(call(2, "a"));
        book.next();
        assert_eq!(
            book.begin_answer("a", Some("1")),
            None,
            "the answer to the first attempt"
        );
        assert_eq!(book.begin_answer("a", None), Some(2));
    }

    #[test]
    fn calls_without_an_answer_are_those_that_wait_and_those_that_run() {
        let mut book = CallBook::default();
        for (number, id) in [(1, "a"), (2, "b"), (3, "c")] {
            book.add(call(number, id));
        }
        book.next();
        book.next();
        book.begin_answer("b", None);
        assert!(book.end(1) && !book.end(1));
        assert!(book.is_given(2) && !book.is_given(3));
        assert_eq!(book.take_all(), [2, 3]);
        assert!(book.is_empty() && !book.end(2));
    }
}
