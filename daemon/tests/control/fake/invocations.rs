//! Its invocations: some that have ended, one that runs, one that cannot be read.

use super::{BEGAN, BROKEN, ENDED, FAILED, FAILED_WITH_RESULT, Fake, Hears, RUNNING, UNKNOWN, id, later, name};
use fnd_core::api::{DeadLetter, DeadLetterList, InvocationList, InvocationView};
use fnd_core::records::outcome::{Reason, RunState, Skip, Trigger};
use fnd_core::records::{InvocationFilter, InvocationRecord, Response, RunResult};
use fnd_core::supervisor::{Answer, Delivered, NotTaken, Rejection, ReplyTo, Submit, Taken};
use fnd_daemon::backend::{
    Answering, EventBackend, EventOrigin, Failure, InvocationBackend, NewEvent, NotPublished, NotStored, PassedOn,
    Pending, Repeated,
};
use fnd_daemon::http::paced::Paced;
use fnd_daemon::metrics::EventOutcome;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

fn record(function: &str, reason: Reason, message: &str, result: Option<RunResult>) -> InvocationRecord {
    InvocationRecord {
        id: id(ENDED),
        function: name(function),
        trigger: Trigger::Manual,
        durable: false,
        state: reason.final_state(),
        accepted_ms: *BEGAN,
        started_ms: Some(*BEGAN + 10),
        ended_ms: Some(*BEGAN + 123),
        attempts: 1,
        polls: 0,
        reason: Some(reason),
        message: message.to_owned(),
        exhausted: None,
        next_attempt_ms: None,
        version: Some(Version([0xab; 32])),
        result,
    }
}

/// Returns an answer whose properties beside the bytes the function chose.
fn chosen(status: u16) -> Arc<Response> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Arc::new(Response {
        content_type: Some("text/html".to_owned()),
        status: Some(status),
        headers: vec![
            header("x-name", "value"),
            header("connection", "close"),
            header("fnd-invocation", "forged"),
        ],
    })
}

fn view(wanted: InvocationId) -> Option<InvocationView> {
    let mut view = match wanted.to_string().as_str() {
        ENDED => InvocationView::of(&record("hello", Reason::Ok, "", None)),
        FAILED | FAILED_WITH_RESULT => InvocationView::of(&record("fails", Reason::Exit(3), "no such host", None)),
        RUNNING => {
            let mut view = InvocationView::of(&record("stuck", Reason::Ok, "", None));
            (view.state, view.reason, view.ended_at) = (RunState::Running, None, None);
            view
        }
        _ => return None,
    };
    view.id = wanted;
    Some(view)
}

fn letter(wanted: InvocationId) -> Option<DeadLetter> {
    let invocation = view(wanted).filter(|_| wanted == id(FAILED))?;
    Some(DeadLetter {
        invocation,
        payload: Some("{\"to\": \"ada\"}".to_owned()),
        payload_bytes: Some(13),
        content_type: Some("application/json".to_owned()),
    })
}

impl EventBackend for Fake {
    fn event_bytes_max(&self) -> u64 {
        1000
    }

    fn fresh_id(&self) -> InvocationId {
        id(ENDED)
    }

    /// The type of an event says what becomes of it.
    fn publish(&self, events: Vec<NewEvent>, origin: EventOrigin) -> Pending<Result<Vec<Delivered>, NotPublished>> {
        let published = events.iter().enumerate().map(|(event, new)| {
            let function = name("hello");
            if !origin.reach.operates(&function) {
                return Ok(Delivered::default());
            }
            let why = "the data does not match `order.json`: `/id`: value is not of type \"integer\"".to_owned();
            match new.attributes.kind.as_str() {
                "nobody" => Ok(Delivered::default()),
                "wrong" => Err(NotPublished::Refused {
                    event,
                    subscribers: vec![NotTaken { function, why }],
                    too_large: false,
                }),
                "full" => Err(NotPublished::Rejected {
                    event,
                    function,
                    rejection: Rejection::Skipped {
                        skip: Skip::QueueFull,
                        retry_after: None,
                    },
                }),
                kind => Ok(Delivered {
                    invocations: vec![Taken {
                        id: id(ENDED),
                        function,
                    }],
                    refused: Vec::new(),
                    duplicate: kind == "again",
                }),
            }
        });
        let published = published.collect();
        self.seen.lock().unwrap().published = events;
        later(published)
    }

    fn count_events(&self, _: EventOutcome, _: u64) {}
}

impl InvocationBackend for Fake {
    fn submit(&self, request: Submit) -> Answering {
        let mut seen = self.seen.lock().unwrap();
        seen.submitted = Some(request.clone());
        seen.submits += 1;
        drop(seen);
        let function = request.function.as_str();
        let ended = |reason, message, result| Answer::Finished(Box::new(record(function, reason, message, result)));
        let skipped = |skip| {
            Answer::Rejected(Rejection::Skipped {
                skip,
                retry_after: Some(Duration::from_millis(1500)),
            })
        };
        let result = |json, data: &'static [u8]| {
            Some(RunResult {
                json,
                data: data.into(),
                response: None,
                kept: None,
            })
        };
        let answer = match function {
            "full" => skipped(Skip::QueueFull),
            "disabled" => skipped(Skip::Disabled),
            _ if !request.wait => Answer::Queued(id(ENDED)),
            "text" => ended(Reason::Ok, "", result(false, "héllo\u{1b}[2J".as_bytes())),
            "binary" => ended(Reason::Ok, "", result(false, b"\xff\x00\xfe")),
            "teapot" => ended(
                Reason::Ok,
                "",
                result(false, b"<p>none").map(|result| RunResult {
                    response: Some(chosen(418)),
                    ..result
                }),
            ),
            "void" => ended(
                Reason::Ok,
                "",
                result(false, b"").map(|result| RunResult {
                    response: Some(chosen(204)),
                    ..result
                }),
            ),
            "fails" => ended(Reason::Exit(3), "no such host", None),
            "oom" => ended(Reason::Oom, "at the limit of 256 MiB, 3 processes killed", None),
            "bad-answer" => ended(Reason::ResultTooLarge, "result of 7 MiB, the limit is 6 MiB", None),
            "cancelled" => ended(Reason::Cancelled, "cancelled", None),
            "slow" => Answer::TimedOut {
                id: id(ENDED),
                message: "`slow` did not end within 180s (limits.timeout)".to_owned(),
            },
            "stopping" => return oneshot::channel().1.into(),
            "stuck" => {
                let (sender, receiver) = oneshot::channel();
                self.unanswered.borrow_mut().push(sender);
                let hears = Rc::new(Hears(Arc::clone(&self.seen)));
                return Answering::for_caller(receiver, hears, id(RUNNING), ReplyTo(0));
            }
            _ => ended(
                Reason::Ok,
                "",
                request.payload.data.as_ref().map(|data| RunResult {
                    json: true,
                    data: data.bytes().unwrap().into_owned().into(),
                    response: None,
                    kept: None,
                }),
            ),
        };
        self.answer(answer)
    }

    fn pass(&self, _: Submit, _: Paced, _: Option<hyper::header::HeaderValue>) -> PassedOn {
        unreachable!("no function of it serves HTTP")
    }

    fn cancel(&self, wanted: InvocationId) -> Answering {
        self.answer(if wanted == id(RUNNING) {
            Answer::Done
        } else {
            Answer::NotFound
        })
    }

    fn invocation(&self, wanted: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>> {
        if wanted == id(BROKEN) {
            return later(Err(Failure("disk I/O error in /var/lib/fnd/state".to_owned())));
        }
        later(Ok(view(wanted)))
    }

    fn function_of(&self, wanted: InvocationId) -> Pending<Result<Option<FunctionName>, Failure>> {
        later(Ok(view(wanted).map(|view| view.function)))
    }

    fn ended(&self, wanted: InvocationId) -> Option<Pending<()>> {
        let (sender, receiver) = oneshot::channel::<()>();
        self.waiting.borrow_mut().push(sender);
        (wanted == id(RUNNING)).then(|| Box::pin(async { drop(receiver.await) }) as Pending<()>)
    }

    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>> {
        let is_first = filter.after.is_none();
        let all = [ENDED, FAILED, RUNNING].into_iter().filter(|_| is_first);
        let all = all.filter_map(|text| view(id(text)));
        let of = |view: &InvocationView| {
            filter
                .function
                .as_ref()
                .is_none_or(|function| *function == view.function)
        };
        let all = all.filter(|view| filter.reach.views(&view.function));
        let invocations: Vec<_> = all.filter(of).collect();
        self.seen.lock().unwrap().filter = Some(filter);
        later(Ok(InvocationList {
            invocations,
            next: is_first.then(|| RUNNING.to_owned()),
        }))
    }

    fn result(&self, wanted: InvocationId) -> Pending<Result<Option<RunResult>, Failure>> {
        let data: Option<&'static [u8]> = match wanted.to_string().as_str() {
            ENDED => Some(b"{\"hello\": \"Ada\"}"),
            FAILED_WITH_RESULT => Some(b"{\"tried\": 3}"),
            _ => None,
        };
        later(Ok(data.map(|data| RunResult {
            json: true,
            data: data.into(),
            response: (wanted.to_string() == ENDED).then(|| chosen(404)),
            kept: None,
        })))
    }

    fn repeat(&self, wanted: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>> {
        let function = name("hello");
        later(Ok(match wanted.to_string().as_str() {
            UNKNOWN => Repeated::Unknown,
            RUNNING => Repeated::NotEnded(function, RunState::Running),
            ENDED if trigger == Trigger::Redrive => Repeated::NotDead(function, RunState::Succeeded),
            ENDED => Repeated::NotKept(function),
            _ => Repeated::Asked(function, self.answer(Answer::Queued(id(RUNNING)))),
        }))
    }

    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>> {
        let letters = letter(id(FAILED)).into_iter();
        let reach = filter.reach.clone();
        self.seen.lock().unwrap().filter = Some(filter);
        let letters = letters.filter(|letter| reach.views(&letter.invocation.function));
        later(Ok(DeadLetterList {
            dead_letters: letters.collect(),
            next: None,
        }))
    }

    fn dead_letter(&self, wanted: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>> {
        later(Ok(letter(wanted)))
    }

    fn drop_dead_letter(&self, wanted: InvocationId) -> Pending<Result<Result<bool, NotStored>, Failure>> {
        later(Ok(Ok(wanted == id(FAILED))))
    }
}
