//! The book of the calls in flight: which wait for a `next`, and which a client may answer. Each call is answered once.
//!
//! ```text
//! waiting ──next──▶ given ──response or error begins──▶ answering ──▶ gone
//! ```

use fnd_core::records::protocol::head_and_parts;
use hyper::body::Bytes;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};

/// The event of a call without a payload: clients read the event as JSON.
const NO_EVENT: &[u8] = b"{}";

/// A call, as far as Lambda has a place for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) call: u64,
    /// The invocation's id. A later attempt at the same invocation has the same one.
    pub(super) id: String,
    /// W3C `traceparent`; empty if there is none.
    pub(super) traceparent: String,
    /// End of this attempt, Unix milliseconds; absent without a limit.
    pub(super) deadline_ms: Option<u64>,
    pub(super) content_type: Option<String>,
    pub(super) event: Bytes,
}

/// The keys that the shim reads. A worker may outlive the fnd that started it, so a later fnd may send others.
#[derive(Deserialize)]
struct InvokeHead {
    invocation: String,
    #[serde(default)]
    traceparent: String,
    deadline_ms: Option<u64>,
    content_type: Option<String>,
    data: Option<usize>,
}

impl Invocation {
    /// Reads the content of an Invoke.
    ///
    /// # Errors
    /// It is not of the form that the protocol says.
    pub(super) fn read(call: u64, content: Vec<u8>) -> Result<Self, String> {
        let short = || "an Invoke ends before its parts do".to_owned();
        let content = Bytes::from(content);
        let (head, parts) = head_and_parts(&content).ok_or_else(short)?;
        let head: InvokeHead =
            serde_json::from_slice(head).map_err(|error| format!("the head of an Invoke: {error}"))?;
        let event = match head.data {
            Some(size) => content.slice_ref(parts.get(..size).ok_or_else(short)?),
            None => Bytes::from_static(NO_EVENT),
        };
        Ok(Self {
            call,
            id: head.invocation,
            traceparent: head.traceparent,
            deadline_ms: head.deadline_ms,
            content_type: head.content_type,
            event,
        })
    }
}

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
    use fnd_core::data::Data;
    use fnd_core::records::protocol::worker_side::{FndDecoder, FndMessage};
    use fnd_core::records::protocol::{self, invoke};

    #[test]
    fn a_call_of_fnd_is_read() {
        let cases: [(Option<&[u8]>, &'static [u8]); 3] = [(None, NO_EVENT), (Some(b""), b""), (Some(b"[1]"), b"[1]")];
        for (data, event) in cases {
            let head = protocol::InvokeHead {
                invocation: "i".into(),
                traceparent: "00-t".into(),
                deadline_ms: Some(7),
                ..protocol::InvokeHead::default()
            };
            let sent = invoke(3, head, data.map(Data::from).as_ref(), None).unwrap();
            let mut decoder = FndDecoder::default();
            decoder.push(&sent.joined());
            let Ok(Some(FndMessage::Invoke { call: number, content })) = decoder.take() else {
                panic!("no Invoke")
            };
            let expected = Invocation {
                traceparent: "00-t".to_owned(),
                deadline_ms: Some(7),
                event: Bytes::from_static(event),
                ..call(3, "i")
            };
            assert_eq!(Invocation::read(number, content), Ok(expected));
        }
    }

    #[test]
    fn an_invoke_of_another_form_is_refused() {
        for (content, why) in [
            (&b""[..], "before its parts"),
            (b"\x02\0\0\0{}", "missing field `invocation`"),
            (b"\x1c\0\0\0{\"invocation\":\"i\",\"data\":10}", "before its parts"),
        ] {
            let refused = Invocation::read(3, content.to_vec()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

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
