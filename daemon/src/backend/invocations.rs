//! Invocations: the live ones are in the supervisor, all of them in the ledger.

use super::{Answering, Backend, Failure, failure};
use crate::driver::Daemon;
use crate::http::live_answer::LiveAnswer;
use crate::http::paced::Paced;
use crate::http::streaming_body::Headed;
use crate::ledger::{self, LedgerCommand};
use crate::workers::http::Upload;
use fnd_core::api::{AttemptView, DeadLetter, DeadLetterList, HookEnd, InvocationList, InvocationView, milliseconds};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::RunState;
use fnd_core::records::{InvocationFilter, InvocationRecord, RunResult};
use fnd_core::run::{Answer, Event, Submit};
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use std::rc::Rc;
use tokio::sync::oneshot;

/// The result of a request whose body is passed on: the head of the answer, or the end of the run if there is no head.
pub(crate) struct PassedOn {
    /// The head, with the body to come; if the sender is dropped, `answer` says what happened.
    pub(crate) head: oneshot::Receiver<Headed>,
    /// The end of the run.
    pub(crate) answer: Answering,
    /// Must be kept until the head comes; dropping it reports that the caller has left.
    pub(crate) caller: PassedOnCaller,
}

/// The result of a request to run an invocation again.
#[derive(Debug)]
pub(crate) enum Repeated {
    /// There is no such invocation.
    Unknown,
    /// The invocation has not ended.
    NotEnded(FunctionName, RunState),
    /// The invocation is no dead letter.
    NotDead(FunctionName, RunState),
    /// The payload of the invocation was not kept.
    NotKept(FunctionName),
    /// Another node has the record of the same work that counts; its name.
    Superseded(FunctionName, String),
    /// The run was requested.
    Asked(FunctionName, Answering),
}

/// A caller whose body is passed on. If it leaves before its call begins, there is nobody to send the body.
pub(crate) struct PassedOnCaller(Rc<Daemon>, InvocationId);

impl Drop for PassedOnCaller {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if state.supervisor.invocation(self.1).is_none() {
            // The invocation was refused, or is over.
            state.workers.uploads.remove(&self.1);
        } else if let Some(upload) = state.workers.uploads.get_mut(&self.1) {
            *upload = None;
        }
    }
}

/// A caller that gets a result as it comes, if it comes as a stream. Dropped, it waits for the whole result only.
pub(crate) struct LiveCaller {
    daemon: Rc<Daemon>,
    id: InvocationId,
    pub(crate) answer: Rc<LiveAnswer>,
}

impl Drop for LiveCaller {
    fn drop(&mut self) {
        // The state is in use only if fnd ends and takes its connections with it.
        if let Ok(mut state) = self.daemon.state.try_borrow_mut() {
            state.callers.live.remove(&self.id);
        }
    }
}

impl Backend {
    /// Passes a request to run, which has its id, to the supervisor. Returns the caller of a result that may come as a stream, and
    /// the end of the run.
    pub(crate) fn submit_live(&self, submit: Submit) -> (LiveCaller, Answering) {
        let (id, answer) = (submit.id, LiveAnswer::new(self.buffers()));
        // The caller is in its place before the request: a free worker begins the call within `once`.
        let shared = Rc::clone(&answer);
        self.daemon.state.borrow_mut().callers.live.insert(id, shared);
        let daemon = Rc::clone(&self.daemon);
        (LiveCaller { daemon, id, answer }, self.once(submit))
    }

    /// Gives a request to run its id and passes it to the supervisor. If the answer is dropped, an invocation that has
    /// not begun and that no other caller waits for is cancelled.
    pub(crate) fn submit(&self, mut submit: Submit) -> Answering {
        submit.id = self.next_id();
        self.once(submit)
    }

    /// Gives a request to run its id, passes it to the supervisor, and streams its body to a program that serves HTTP.
    pub(crate) fn pass(&self, mut submit: Submit, body: Paced, upgrade: Option<HeaderValue>) -> PassedOn {
        let id = self.next_id();
        submit.id = id;
        let limit = self.bounds(&submit.function).map_or(0, |bounds| bounds.body);
        let (sender, head) = oneshot::channel();
        let upload = Upload {
            body,
            limit,
            upgrade,
            answer: sender,
        };
        // The body is in its place before the request: a free worker begins the call within `once`, and takes it from
        // there.
        self.daemon.state.borrow_mut().workers.uploads.insert(id, Some(upload));
        let caller = PassedOnCaller(Rc::clone(&self.daemon), id);
        let answer = self.once(submit);
        PassedOn { head, answer, caller }
    }

    /// Requests the end of an invocation: `Answer::Done` or `Answer::NotFound`. One that waits is not ended while that
    /// cannot be stored (`Answer::StoreFailed`): the next fnd would run it.
    pub(crate) fn cancel(&self, id: InvocationId) -> Answering {
        let live = self.settled().supervisor.invocation(id);
        // The end of one that is not durable is its end in any case: no other fnd runs it again.
        if live.is_none_or(|live| !live.durable) {
            return self.ask_for_all(|reply| Event::Cancel { id, reply });
        }
        let control = self.clone();
        let cancelled = self.to_the_end(async move {
            let stored = control.store_change(vec![LedgerCommand::Cancel(id)]).await;
            // The spawner keeps the order to end one that runs, and somebody who ends it may do so because the disk is full.
            let runs = |live: InvocationRecord| live.state == RunState::Running;
            if stored.is_err() && !control.settled().supervisor.invocation(id).is_some_and(runs) {
                return Some(Answer::StoreFailed);
            }
            control.ask_for_all(|reply| Event::Cancel { id, reply }).await.ok()
        });
        cancelled.into()
    }

    /// Returns an invocation with its attempts, whether it is in memory or only in the history.
    pub(crate) async fn invocation(&self, id: InvocationId) -> Result<Option<InvocationView>, Failure> {
        // The record in memory is newer than the one on disk.
        let live = self.settled().supervisor.invocation(id);
        let stored = self.reader.get(id).await.map_err(failure)?;
        let mut view = match (&live, &stored) {
            (Some(record), _) => InvocationView::of(record),
            (None, Some(stored)) => InvocationView::of(&stored.record),
            (None, None) => return Ok(None),
        };
        if let Some(stored) = stored {
            view.replay_of = stored.origin;
            // The record in memory may be older than what was read since.
            view.hook = (stored.hook_failed && view.state.is_final()).then_some(HookEnd::Failed);
            view.superseded_by = stored.superseded_by;
            view.cause = stored.cause.as_deref().cloned();
            view.children = stored.children;
            view.parent = match &view.cause {
                Some(Cause::Call(call)) => call.invocation,
                _ => None,
            };
            view.attempt_records = stored.attempts.iter().map(AttemptView::of).collect();
        }
        Ok(Some(view))
    }

    /// Returns the function of an invocation; nothing if there is no such invocation.
    pub(crate) async fn function_of(&self, id: InvocationId) -> Result<Option<FunctionName>, Failure> {
        let live = self.settled().supervisor.invocation(id).map(|record| record.function);
        match live {
            Some(function) => Ok(Some(function)),
            None => self.reader.function_of(id).await.map_err(failure),
        }
    }

    /// Returns a future that resolves when the invocation has ended and its end can be read, or when fnd stops. Returns
    /// nothing if the invocation is not in memory: then it has ended or never existed.
    pub(crate) fn ended(&self, id: InvocationId) -> Option<impl Future<Output = ()> + use<>> {
        let state = self.settled();
        state.supervisor.invocation(id)?;
        Some(state.callers.wait_for_end(id))
    }

    /// Returns a page of the history, newest first, without details of attempts.
    pub(crate) async fn invocations(&self, filter: InvocationFilter) -> Result<InvocationList, Failure> {
        let page = self.history().list(filter).await.map_err(failure)?;
        let mut invocations: Vec<_> = page.records.iter().map(InvocationView::of).collect();
        for view in invocations
            .iter_mut()
            .filter(|view| page.hook_failed.contains(&view.id))
        {
            view.hook = Some(HookEnd::Failed);
        }
        for (view, usage) in invocations.iter_mut().zip(page.usage) {
            view.cpu_ms = usage.cpu_us.map(milliseconds);
            view.memory_peak_bytes = usage.memory_peak_bytes;
        }
        Ok(InvocationList {
            invocations,
            next: page.next.map(|id| id.to_string()),
        })
    }

    /// Returns the result of the last attempt; nothing if it has no result, or if the result was deleted.
    pub(crate) async fn result(&self, id: InvocationId) -> Result<Option<RunResult>, Failure> {
        match self.history().result(id).await.map_err(failure)? {
            ledger::ResultOf::Ended(result) => Ok(result),
            ledger::ResultOf::Unknown | ledger::ResultOf::Unfinished(_) => Ok(None),
        }
    }

    /// Returns the payload of an invocation and its media type; nothing if it is not stored.
    pub(crate) async fn payload(&self, id: InvocationId) -> Result<Option<(Option<String>, Bytes)>, Failure> {
        let stored = self.history().stored_invocation(id).await.map_err(failure)?;
        let Some(payload) = stored.and_then(|stored| stored.payload) else {
            return Ok(None);
        };
        let Some(data) = payload.data else { return Ok(None) };
        let content_type = payload.content_type.as_deref().map(str::to_owned);
        Ok(Some((content_type, data.view().map_err(failure)?)))
    }

    /// Returns a page of the dead letters, newest first.
    pub(crate) async fn dead_letters(&self, filter: InvocationFilter) -> Result<DeadLetterList, Failure> {
        let found = self.history().dead_letters(filter).await.map_err(failure)?;
        Ok(DeadLetterList {
            dead_letters: found.letters,
            next: found.next.map(|id| id.to_string()),
        })
    }

    /// Returns a dead letter; nothing if no dead letter has that id.
    pub(crate) async fn dead_letter(&self, id: InvocationId) -> Result<Option<DeadLetter>, Failure> {
        self.history().dead_letter(id).await.map_err(failure)
    }
}
