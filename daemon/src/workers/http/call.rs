//! One call of a worker that serves HTTP: its request, its answer, and how it ended.

use super::closable::RequestCloser;
use super::endpoint::Endpoint;
use super::exchange::{self, ExchangeError, Sent};
use super::{DEATH_SHOWS, DEATH_SHOWS_LATER, Server, Upload};
use crate::http::headers::put_upgrade;
use crate::http::streaming_body::{Headed, Passing, PassingEnd};
use crate::http::tunnel::{Side, Tunnel};
use crate::input::{Inbox, Input};
use crate::workers::environment;
use bytes::Bytes;
use fnd_core::data::Data;
use fnd_core::instant;
use fnd_core::json::is_json;
use fnd_core::records::RunResult;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Reason;
use fnd_core::run::AttemptOrder;
use fnd_core::triggers::event::renewed;
use fnd_wire::ids::{InvocationId, WorkerId};
use fnd_wire::units::print_size;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a broken connection waits for the news that its worker has ended, which gives the better reason: a process
/// closes its sockets a moment before its end is reported.
pub(super) const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Why an answer is not whole whose worker died.
const CUT: &str = "the program ended before its answer did";

/// A request that is being answered.
pub(super) struct OpenCall(Rc<Server>);

impl OpenCall {
    pub(super) fn new(server: Rc<Server>) -> Self {
        server.open.set(server.open.get() + 1);
        Self(server)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        // A task that reads the worker's last answers checks `open` again.
        self.0.ended.send_modify(|_| {});
    }
}

/// Returns the request for a call, with the body that is there.
pub(super) fn head(attempt: &AttemptOrder, now_ms: u64) -> Result<Request<Bytes>, String> {
    let payload = &attempt.payload;
    let made = environment::request(attempt);
    let made = made.as_deref();
    let default = if payload.data.is_some() { "POST" } else { "GET" };
    let method = made.map_or(default, |made| made.method.as_str());
    let target = match made {
        None => "/".to_owned(),
        Some(made) if made.query.is_empty() => made.path.clone(),
        Some(made) => format!("{}?{}", made.path, made.query),
    };
    let body = match payload.data.as_ref().map(Data::bytes).transpose() {
        Ok(body) => body.map(|bytes| Bytes::from(bytes.into_owned())).unwrap_or_default(),
        Err(error) => return Err(format!("its body, which waited on the disk, cannot be read: {error}")),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(body)
        .map_err(|error| format!("its request is not valid in HTTP: {error}"))?;
    let given = made.map_or(&[][..], |made| &made.headers);
    let renewed = renewed(given);
    let find = |name: &str| {
        given
            .iter()
            .chain(&renewed)
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.clone())
    };
    let mut own = vec![
        ("traceparent", environment::span(attempt).traceparent()),
        ("fnd-invocation", attempt.invocation.to_string()),
        ("fnd-attempt", attempt.attempt.0.to_string()),
    ];
    own.extend(
        attempt
            .deadline_ms
            .map(|deadline| ("fnd-deadline", deadline.to_string())),
    );
    // The event's fields come from the caller's headers, else from its CloudEvent headers. Without either, each
    // invocation is an event of its own.
    let event = |name: &str, of_event: &str| find(name).or_else(|| find(of_event));
    let id = event("event-id", "ce-id").unwrap_or_else(|| attempt.invocation.to_string());
    let cause = payload.cause.as_deref().and_then(Cause::time);
    let now = || cause.map_or_else(|| instant::text(now_ms), str::to_owned);
    let time = event("event-time", "ce-time").unwrap_or_else(now);
    own.extend([("event-id", id), ("event-time", time)]);
    for (name, of_event) in [("event-type", "ce-type"), ("event-namespace", "ce-source")] {
        own.extend(event(name, of_event).map(|value| (name, value)));
    }
    if let Some(content_type) = payload.content_type.as_deref() {
        own.push(("content-type", content_type.to_owned()));
    }
    exchange::put(request.headers_mut(), given, &own);
    Ok(request)
}

/// A call that is being made.
pub(super) struct HttpCallTask {
    pub(super) closer: Arc<RequestCloser>,
    pub(super) inbox: Inbox,
    pub(super) worker: WorkerId,
    pub(super) call: u64,
    pub(super) invocation: InvocationId,
    pub(super) result_max: u64,
}

/// The end of a call, and the kept part of its answer.
type Outcome = ((Reason, String), Option<RunResult>);

/// The message that a caller gets once the end of the call is in the table of calls in flight.
enum Afterwards {
    Nothing,
    /// The body is over: this sends the rest of the body. Dropped, it breaks the body off.
    End(oneshot::Sender<()>),
    /// The whole answer, which has no body.
    Answer(oneshot::Sender<Headed>, Headed),
}

impl Afterwards {
    fn send(self) {
        match self {
            Self::Answer(answer, headed) => {
                let _ = answer.send(headed); // an error: the caller has gone
            }
            Self::End(kept) => {
                let _ = kept.send(()); // an error: the caller has gone
            }
            Self::Nothing => {}
        }
    }
}

impl HttpCallTask {
    /// Makes the call and reports how it ended.
    pub(super) async fn run(
        self,
        open: OpenCall,
        request: Result<Request<Bytes>, String>,
        upload: Option<Option<Upload>>,
    ) {
        let mut afterwards = Afterwards::Nothing;
        let exchanged = async {
            match (request, upload) {
                (Err(why), _) => Err(ExchangeError::Worker(why)),
                (Ok(request), None) => self.keep(&open.0, request).await,
                (Ok(_), Some(None)) => Err(ExchangeError::Caller),
                (Ok(request), Some(Some(upload))) => self.pass(&open.0, request, upload, &mut afterwards).await,
            }
        };
        // The rest of an exchange that is dropped is the connection, which is closed then.
        let sent = tokio::select! {
            biased;
            // fnd has ended the call, so its answer does not count, even if both are ready now.
            () = self.closer.closed() => Err(ExchangeError::Closed),
            sent = exchanged => sent,
        };
        open.0.closers.borrow_mut().remove(&self.call);
        let cancelled = |why: &str| ((Reason::Cancelled, why.to_owned()), None);
        let (how, result) = match sent {
            Ok(outcome) => outcome,
            Err(ExchangeError::Worker(why)) => {
                // The caller sees at once that its answer is cut off.
                afterwards = Afterwards::Nothing;
                // The worker's end gives the better reason.
                if open.0.ends_within(EXIT_WAIT).await {
                    return;
                }
                ((Reason::BadAnswer, why), None)
            }
            // The next fnd records it as interrupted.
            Err(ExchangeError::Caller) if self.inbox.is_leaving() => return,
            Err(ExchangeError::TooLarge) => cancelled("the body of the request is larger than limits.body"),
            Err(ExchangeError::TooSlow) => cancelled("the body of the request came too slowly"),
            Err(ExchangeError::Closed) => {
                afterwards = Afterwards::Nothing;
                cancelled("fnd closed the connection")
            }
            Err(ExchangeError::Caller) => cancelled("the caller closed the connection"),
        };
        // The end is in the table `in-flight` before the caller gets the last piece: an answered call must not become
        // `interrupted`.
        self.inbox.input(Input::Answered(self.worker, self.call, how, result));
        afterwards.send();
        // From here on the request is over for those that wait until the worker is quiet: its end, and the hand-over.
        drop(open);
    }

    /// Sends a request, with the worker's key.
    async fn send(&self, server: &Server, mut request: Request<Sent>) -> Result<Response<Incoming>, ExchangeError> {
        // A worker that is ready has an address.
        let unknown = || ExchangeError::Worker("it never reported its port".to_owned());
        let Endpoint { address, key } = server.endpoint();
        let address = address.ok_or_else(unknown)?;
        if let Some(key) = key {
            key.put(request.headers_mut());
        }
        let to = (self.worker, &address);
        exchange::send(&self.inbox, to, Arc::clone(&self.closer), request).await
    }

    /// Sends a request whose body is there, and keeps the whole answer.
    async fn keep(&self, server: &Server, request: Request<Bytes>) -> Result<Outcome, ExchangeError> {
        let request = request.map(|body| Sent::Whole(Some(body).filter(|body| !body.is_empty())));
        let (parts, body) = self.send(server, request).await?.into_parts();
        let Some(body) = exchange::collect(body, self.result_max).await? else {
            let limit = print_size(self.result_max);
            let why = format!("the answer is larger than {limit} (limits.result)");
            return Ok(((Reason::ResultTooLarge, why), None));
        };
        // Only the end of the connection ends such a body, and the death of the worker ends the connection just the
        // same.
        if !exchange::shows_its_end(&parts.headers) && server.has_died(DEATH_SHOWS).await {
            return Err(ExchangeError::Worker(exchange::broken_off(CUT)));
        }
        let kept = exchange::kept(parts.status, &parts.headers);
        let stated = kept.content_type.as_deref();
        let json = stated.is_none_or(is_json) && serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        let result = RunResult {
            json,
            data: body.into(),
            response: Some(Arc::new(kept)),
            kept: None,
        };
        Ok((judged(parts.status), Some(result)))
    }

    /// Sends a request whose body comes from a caller. The caller gets the answer as it comes, except for the piece
    /// that completes it.
    async fn pass(
        &self,
        server: &Server,
        mut request: Request<Bytes>,
        upload: Upload,
        afterwards: &mut Afterwards,
    ) -> Result<Outcome, ExchangeError> {
        let answer = upload.answer;
        put_upgrade(upload.upgrade, request.headers_mut());
        let of_body = Rc::<Cell<Option<ExchangeError>>>::default();
        let request = request.map(|_| Sent::Passed {
            from: upload.body,
            left: upload.limit,
            error: Rc::clone(&of_body),
        });
        let answered = match self.send(server, request).await {
            Ok(answered) => answered,
            Err(error) => {
                let refused = match error {
                    ExchangeError::TooLarge => Headed::TooLarge(self.invocation),
                    ExchangeError::TooSlow => Headed::TooSlow(self.invocation),
                    ExchangeError::Worker(_) | ExchangeError::Caller | ExchangeError::Closed => return Err(error),
                };
                let _ = answer.send(refused); // an error: the caller has gone
                return Err(error);
            }
        };
        if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(server, answered, answer).await;
        }
        let how = judged(answered.status());
        let (parts, body) = answered.into_parts();
        let (body, end) = Passing::new(body);
        let (is_empty, shows_its_end) = (body.is_empty(), exchange::shows_its_end(&parts.headers));
        let headed = Headed::Answer(self.invocation, Box::new(Response::from_parts(parts, body)));
        // The head of an answer without a body is the whole answer. So it waits until the end of the call is in
        // `in-flight`.
        if is_empty {
            *afterwards = Afterwards::Answer(answer, headed);
            return Ok((how, None));
        }
        answer.send(headed).map_err(|_| ExchangeError::Caller)?;
        let PassingEnd { ended, kept } = end;
        *afterwards = Afterwards::End(kept);
        match ended.await {
            Ok(Ok(())) if !shows_its_end && server.has_died(DEATH_SHOWS).await => {
                Err(ExchangeError::Worker(exchange::broken_off(CUT)))
            }
            Ok(Ok(())) => Ok((how, None)),
            // The worker may have begun its answer before it read the body, which broke off then.
            Ok(Err(cause)) => Err(of_body
                .take()
                .unwrap_or_else(|| ExchangeError::Worker(exchange::broken_off(&cause)))),
            Err(_) => Err(ExchangeError::Caller),
        }
    }

    /// Gives the caller the connection to the worker, which speaks another protocol from now on. The call ends with
    /// that connection, and either side may end it.
    async fn switch(
        &self,
        server: &Server,
        mut answered: Response<Incoming>,
        answer: oneshot::Sender<Headed>,
    ) -> Result<Outcome, ExchangeError> {
        let program = hyper::upgrade::on(&mut answered).await;
        let program = program.map_err(|error| exchange::broken(&error))?;
        let (tunnel, ended) = Tunnel::new(program);
        let headed = Headed::Switched(self.invocation, Box::new(answered.map(|_| tunnel)));
        answer.send(headed).map_err(|_| ExchangeError::Caller)?;
        match ended.await {
            Ok(Side::Program) if server.has_died(DEATH_SHOWS_LATER).await => {
                Err(ExchangeError::Worker(exchange::broken_off(CUT)))
            }
            Ok(Side::Program | Side::Caller) => Ok((judged(StatusCode::SWITCHING_PROTOCOLS), None)),
            Err(_) => Err(ExchangeError::Caller),
        }
    }
}

/// Returns how the call ended, by the status of the answer: a 5xx status means that the server failed.
fn judged(status: StatusCode) -> (Reason, String) {
    if status.is_server_error() {
        (Reason::Error, format!("it answered {status}"))
    } else {
        (Reason::Ok, String::new())
    }
}
