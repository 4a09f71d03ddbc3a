//! Callers that send all kinds of requests while fnd is killed, and record the answers.

use super::functions::FUNCTIONS;
use fastrand::Rng;
use fnd_core::api::{DeadLetterList, Queued};
use fnd_tests::{Answer, Client};
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The answers that callers got.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Requests that may have made an invocation.
    pub(crate) requests: u64,
    /// Accepted with 202, and by which function.
    pub(crate) accepted: BTreeMap<InvocationId, &'static str>,
    /// The answers to requests with an `Idempotency-Key`, which are sent several times; by key, which is also the tag.
    pub(crate) keys: BTreeMap<String, BTreeSet<InvocationId>>,
    /// Invocations whose caller waited and got a success.
    pub(crate) answered: BTreeSet<InvocationId>,
    /// Invocations that a caller cancelled; the request may have come too late.
    pub(crate) cancelled: BTreeSet<InvocationId>,
    /// Dead letters that a caller redrove, with the new invocation; none if no answer came.
    pub(crate) redriven: BTreeMap<InvocationId, Option<InvocationId>>,
    /// Dead letters whose redrive was refused, with the answer.
    pub(crate) not_redriven: BTreeMap<InvocationId, String>,
    /// Dead letters that a caller dropped, and whether fnd confirmed it.
    pub(crate) dropped: BTreeMap<InvocationId, bool>,
}

impl Replies {
    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.accepted.extend(other.accepted);
        self.keys.extend(other.keys);
        self.answered.extend(other.answered);
        self.cancelled.extend(other.cancelled);
        self.redriven.extend(other.redriven);
        self.not_redriven.extend(other.not_redriven);
        self.dropped.extend(other.dropped);
    }
}

pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Replies>>,
}

impl Load {
    /// Lets callers send requests until [`end`](Self::end), with this many pauses between two requests. No other load
    /// has this `tag`.
    pub(crate) fn begin(client: &Client, rng: &mut Rng, tag: &str, pauses: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..3).map(|number| {
            let mut caller = Caller {
                client: client.clone(),
                rng: rng.fork(),
                tag: format!("{tag}-{number}"),
                // Each caller has its own dead letters: if two callers redrove one at once, both answers would be
                // right.
                share: number,
                replies: Replies::default(),
            };
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    caller.ask(&stop);
                    (0..pauses).for_each(|_| fnd_tests::wait::pause());
                }
                caller.replies
            })
        });
        let callers = callers.collect();
        Self { stop, callers }
    }

    /// Returns the answers of all callers.
    pub(crate) fn end(self) -> Replies {
        self.stop.store(true, Ordering::Relaxed);
        let mut replies = Replies::default();
        for caller in self.callers {
            replies.merge(caller.join().expect("a caller that does not panic"));
        }
        replies
    }
}

struct Caller {
    client: Client,
    rng: Rng,
    tag: String,
    share: u128,
    replies: Replies,
}

impl Caller {
    fn ask(&mut self, stop: &AtomicBool) {
        let function = FUNCTIONS[self.rng.usize(..FUNCTIONS.len())].name;
        match self.rng.u32(..20) {
            0..9 => self.queue(function),
            9..12 => self.queue_once(function, stop),
            12..17 => self.invoke(function),
            17 => self.cancel(),
            18 => self.redrive(),
            _ => self.discard(),
        }
    }

    /// Returns nothing if fnd was killed or does not run.
    fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Answer> {
        self.client.try_call(method, path, headers, body.as_bytes()).ok()
    }

    fn submit(&mut self, function: &str, verb: &str, key: Option<&str>, tag: &str) -> Option<Answer> {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        self.replies.requests += 1;
        self.call(
            "POST",
            &format!("/v1/functions/{function}/{verb}"),
            &headers,
            &data(tag),
        )
    }

    fn next_tag(&self) -> String {
        format!("{}-{}", self.tag, self.replies.requests)
    }

    fn queue(&mut self, function: &'static str) {
        let tag = self.next_tag();
        if let Some(id) = self
            .submit(function, "invocations", None, &tag)
            .as_ref()
            .and_then(queued)
        {
            self.replies.accepted.insert(id, function);
        }
    }

    /// Repeats a request until there is an answer, and sometimes once more.
    fn queue_once(&mut self, function: &'static str, stop: &AtomicBool) {
        let key = self.next_tag();
        let mut ids = BTreeSet::new();
        loop {
            let answer = self.submit(function, "invocations", Some(&key), &key);
            let broken = answer.is_none();
            if let Some(id) = answer.as_ref().and_then(queued) {
                self.replies.accepted.insert(id, function);
                ids.insert(id);
            }
            if stop.load(Ordering::Relaxed) || !broken && self.rng.bool() {
                break;
            }
            fnd_tests::wait::pause();
        }
        self.replies.keys.insert(data(&key), ids);
    }

    fn invoke(&mut self, function: &str) {
        let tag = self.next_tag();
        let answer = self.submit(function, "invoke", None, &tag);
        let id = answer.filter(|answer| answer.status == 200);
        let id = id.and_then(|answer| answer.header("fnd-invocation").and_then(InvocationId::parse));
        self.replies.answered.extend(id);
    }

    fn cancel(&mut self) {
        // One of the newest, since older ones have ended.
        let newest = self.replies.accepted.keys().rev().take(3);
        if let Some(id) = self.rng.choice(newest.copied().collect::<Vec<_>>()) {
            self.replies.cancelled.insert(id);
            let _ = self.call("POST", &format!("/v1/invocations/{id}/cancel"), &[], ""); // it may be too late
        }
    }

    fn letter(&self) -> Option<InvocationId> {
        let answer = self.call("GET", "/v1/dead-letters?function=dies", &[], "")?;
        let letters = serde_json::from_slice::<DeadLetterList>(&answer.body)
            .ok()?
            .dead_letters;
        let mut ids = letters.iter().map(|letter| letter.invocation.id);
        ids.find(|id| {
            id.0 % 3 == self.share && !self.replies.redriven.contains_key(id) && !self.replies.dropped.contains_key(id)
        })
    }

    fn redrive(&mut self) {
        let Some(id) = self.letter() else { return };
        self.replies.requests += 1;
        let answer = self.call("POST", &format!("/v1/dead-letters/{id}/redrive"), &[], "");
        // An fnd that stops answers 503 to a request that it may have accepted, and says so.
        let refused = answer
            .as_ref()
            .is_some_and(|answer| ![202, 503].contains(&answer.status.as_u16()));
        let new = answer.as_ref().and_then(queued);
        if let Some(new) = new {
            self.replies.accepted.insert(new, "dies");
        }
        match answer {
            Some(answer) if refused => {
                let said = format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body));
                self.replies.not_redriven.insert(id, said);
            }
            _ => drop(self.replies.redriven.insert(id, new)),
        }
    }

    fn discard(&mut self) {
        let Some(id) = self.letter() else { return };
        let answer = self.call("DELETE", &format!("/v1/dead-letters/{id}"), &[], "");
        self.replies
            .dropped
            .insert(id, answer.is_some_and(|answer| answer.status == 200));
    }
}

fn data(tag: &str) -> String {
    format!("{{\"tag\":\"{tag}\"}}")
}

fn queued(answer: &Answer) -> Option<InvocationId> {
    (answer.status == 202).then(|| answer.json::<Queued>().id)
}
