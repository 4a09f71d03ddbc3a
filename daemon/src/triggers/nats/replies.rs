//! Requests that a function answers (`reply = true`). They are in no stream: nothing remembers one before it runs, and whoever asks
//! repeats it.

use super::fact::{DeliveredMessage, RequestedMessage};
use super::request::{NatsRequest, OutgoingMessage};
use super::submission::payload;
use super::{MessageEffect, Messages};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_core::records::{InvocationRecord, StreamPlace};
use fnd_core::run::{Answer, Now, Submit};
use fnd_core::triggers::nats::message;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;

/// An answer: its headers and its payload.
type Reply = (Vec<(String, String)>, Vec<u8>);

impl Messages {
    /// Handles a request of somebody else.
    pub(super) fn requested(&mut self, now: Now, request: RequestedMessage, id: InvocationId) {
        let Some(entry) = self.entries.get(&request.entry) else {
            return;
        };
        let function = entry.function.clone();
        let inbox = request.inbox.clone();
        // The sender of the request chooses the subject of the answer, and fnd publishes the answer with its own rights. So no answer
        // goes to a subject that the server or fnd obeys.
        if inbox.as_ref().is_some_and(|inbox| inbox.starts_with('$')) {
            return;
        }
        // It has no place in a stream but its time, and no address for an acknowledgement.
        let message = DeliveredMessage {
            entry: request.entry,
            subject: request.subject,
            place: StreamPlace {
                stream: "".into(),
                created_ns: now.unix_ms.saturating_mul(1_000_000),
                sequence: 0,
            },
            ack: "".into(),
            delivered: 0,
            headers: request.headers,
            payload: request.payload,
        };
        drop(request.room); // `queue.max` bounds what waits from here on
        let read = match message::read(&message.view(), entry.wanted.body_max) {
            Ok(read) => read,
            Err(bad) => {
                let problem = Problem::new(Code::Unprocessable, bad.to_string()).of(&function);
                return self.reply(inbox, &function, failed(&problem));
            }
        };
        if !read.holds(&message.view(), &entry.wanted.tests.0) {
            let detail = "`when` of the function does not hold for the request";
            let problem = Problem::new(Code::Unprocessable, detail).of(&function);
            return self.reply(inbox, &function, failed(&problem));
        }
        let submit = Submit {
            payload: payload(&message, &read),
            wait: true,
            ..Submit::new(id, function, Trigger::Nats)
        };
        self.out.push(MessageEffect::Request(Box::new(submit), inbox));
    }

    /// Answers a request with what has become of its run.
    pub(crate) fn answered(&mut self, function: &FunctionName, inbox: Arc<str>, answer: &Answer) {
        self.reply(Some(inbox), function, reply_of(answer, function));
    }

    fn reply(&mut self, inbox: Option<Arc<str>>, function: &FunctionName, (headers, payload): Reply) {
        let Some(subject) = inbox else { return }; // nobody waits
        let mut answer = OutgoingMessage {
            subject,
            headers,
            payload: payload.into(),
        };
        // The client would not send it, and whoever has asked would wait in vain.
        let size = answer.size();
        if let Some(most) = self.connection.max_payload().filter(|most| size > *most) {
            let detail = format!("the answer has {size} bytes with its headers, and the server of NATS takes {most}");
            let (headers, payload) = failed(&Problem::new(Code::BadAnswer, detail).of(function));
            (answer.headers, answer.payload) = (headers, payload.into());
        }
        self.out.push(MessageEffect::Send(NatsRequest::Answer(answer)));
    }
}

/// Returns the reply that an answer of the supervisor becomes.
fn reply_of(answer: &Answer, function: &FunctionName) -> Reply {
    let problem = |code, detail: &str| failed(&Problem::new(code, detail).of(function));
    match answer {
        Answer::Finished(record) => of_end(record),
        Answer::TimedOut { id, message } => {
            let problem = Problem::new(Code::Timeout, message.clone());
            failed(&problem.of(function).in_invocation(*id, Some(Reason::Timeout)))
        }
        Answer::Rejected(rejection) => failed(&Problem::of_refusal(rejection, function)),
        Answer::StoreFailed => problem(Code::Unavailable, "the invocation could not be stored"),
        Answer::Queued(_) | Answer::Published(_) | Answer::NotPublished { .. } | Answer::Done | Answer::NotFound => {
            problem(
                Code::Internal,
                "the supervisor gave another answer than to a request to run",
            )
        }
    }
}

fn of_end(record: &InvocationRecord) -> Reply {
    if record.state == RunState::Succeeded {
        let result = record.result.as_ref();
        let headers = result.map(|result| ("Content-Type".to_owned(), result.media_type().to_owned()));
        let payload = result.map(|result| result.data.to_vec()).unwrap_or_default();
        return (headers.into_iter().collect(), payload);
    }
    let reason = record.reason.unwrap_or(Reason::Error);
    let detail = match record.message.is_empty() {
        true => reason.to_string(),
        false => record.message.clone(),
    };
    let problem = Problem::new(Code::of_end(reason), detail).of(&record.function);
    failed(&problem.in_invocation(record.id, Some(reason)))
}

/// Returns the reply for a failure: the headers of services of NATS, and the problem as JSON.
fn failed(problem: &Problem) -> Reply {
    let code = match problem.status {
        408 | 429 => problem.status,
        400 | 413 | 422 => 422,
        _ => 500,
    };
    let headers = vec![
        ("Content-Type".to_owned(), "application/problem+json".to_owned()),
        ("Nats-Service-Error".to_owned(), problem.detail.clone()),
        ("Nats-Service-Error-Code".to_owned(), code.to_string()),
    ];
    (headers, serde_json::to_vec(problem).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, function, record, serving, wanted_reply};
    use super::*;
    use fnd_core::records::RunResult;
    use fnd_core::records::outcome::Skip;
    use fnd_core::run::Rejection;

    const ID: InvocationId = InvocationId(1);

    fn request(payload: &'static str) -> RequestedMessage {
        RequestedMessage {
            entry: 1,
            subject: "sum".to_owned(),
            inbox: Some("_INBOX.a".into()),
            headers: Vec::new(),
            payload: payload.into(),
            room: None,
        }
    }

    fn service() -> Messages {
        serving(wanted_reply("f", "sum"))
    }

    #[test]
    fn a_request_runs_for_a_caller_that_waits() {
        let mut messages = service();
        messages.requested(at(5), request("[1, 2]"), ID);
        let effects = messages.take_effects();
        let [MessageEffect::Request(submit, Some(inbox))] = &effects[..] else {
            panic!("it is submitted");
        };
        assert_eq!((submit.id, submit.wait, &**inbox), (ID, true, "_INBOX.a"));
        assert!(submit.message.is_none());
    }

    #[test]
    fn a_request_whose_answer_would_be_an_order_is_dropped() {
        let mut messages = service();
        let malformed = vec![("ce-id".to_owned(), "7".to_owned())];
        for headers in [Vec::new(), malformed] {
            let bad = RequestedMessage {
                inbox: Some("$KV.b.nodes.vm2".into()),
                headers,
                ..request("[1, 2]")
            };
            messages.requested(at(5), bad, ID);
        }
        assert!(messages.take_effects().is_empty());
    }

    /// The client refuses it with its headers, and nobody would learn that.
    #[test]
    fn an_answer_that_is_too_large_with_its_headers_is_said_to_be() {
        let mut messages = service();
        let mut ended = record(ID, Reason::Ok);
        ended.result = Some(RunResult {
            json: false,
            data: vec![b'1'; 990].into(),
            response: None,
            kept: None,
        });
        messages.answered(&function("f"), "_INBOX.a".into(), &Answer::Finished(Box::new(ended)));
        let effects = messages.take_effects();
        let [MessageEffect::Send(NatsRequest::Answer(answer))] = &effects[..] else {
            panic!("it is answered");
        };
        assert_eq!(answer.headers[1].0, "Nats-Service-Error");
        assert!(answer.size() <= 1000 && answer.headers[1].1.contains("the server of NATS takes 1000"));
    }

    #[test]
    fn a_request_that_is_no_input_is_answered_with_422() {
        let mut messages = service();
        let bad = RequestedMessage {
            headers: vec![("ce-id".to_owned(), "7".to_owned())],
            ..request("[1, 2]")
        };
        messages.requested(at(5), bad, ID);
        let effects = messages.take_effects();
        let [MessageEffect::Send(NatsRequest::Answer(answer))] = &effects[..] else {
            panic!("it is answered");
        };
        assert_eq!(answer.headers[2].1, "422");
    }

    #[test]
    fn a_failure_has_the_headers_of_a_service() {
        let skipped = Answer::Rejected(Rejection::Skipped {
            skip: Skip::QueueFull,
            retry_after: None,
        });
        let (headers, payload) = reply_of(&skipped, &function("f"));
        assert_eq!(headers[2], ("Nats-Service-Error-Code".to_owned(), "429".to_owned()));
        assert!(String::from_utf8(payload).unwrap().contains("queue-full"));
        let mut messages = service();
        let late = Answer::TimedOut {
            id: ID,
            message: "late".to_owned(),
        };
        messages.answered(&function("f"), "_INBOX.a".into(), &late);
        let effects = messages.take_effects();
        let [MessageEffect::Send(NatsRequest::Answer(answer))] = &effects[..] else {
            panic!("it is answered");
        };
        assert_eq!(answer.headers[1].1, "late");
        assert_eq!(answer.headers[2].1, "408");
    }
}
