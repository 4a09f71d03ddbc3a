//! Invocations: the live ones are in the supervisor, all of them in the ledger.

use super::{Answering, DaemonBackend, Failure, NotStored, Pending, failure};
use super::{FunctionBackend as _, InvocationBackend};
use crate::driver::Daemon;
use crate::http::paced::Paced;
use crate::http::streaming_body::Headed;
use crate::ledger::{self, LedgerCommand};
use crate::workers::http::Upload;
use fnd_core::api::{AttemptView, DeadLetter, DeadLetterList, HookEnd, InvocationList, InvocationView, milliseconds};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{InvocationFilter, InvocationRecord, RunResult};
use fnd_core::supervisor::{Answer, Event, Submit};
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::header::HeaderValue;
use std::rc::Rc;
use tokio::sync::oneshot;

/// The result of a request whose body is passed on: the head of the answer, or the end of the run if there is no head.
pub struct PassedOn {
    /// The head, with the body to come; if the sender is dropped, `answer` says what happened.
    pub head: oneshot::Receiver<Headed>,
    /// The end of the run.
    pub answer: Answering,
    /// Must be kept until the head comes; dropping it reports that the caller has left.
    pub caller: Box<dyn std::any::Any>,
}

/// The result of a request to run an invocation again.
#[derive(Debug)]
pub enum Repeated {
    /// There is no such invocation.
    Unknown,
    /// The invocation has not ended.
    NotEnded(FunctionName, RunState),
    /// The invocation is no dead letter.
    NotDead(FunctionName, RunState),
    /// The payload of the invocation was not kept.
    NotKept(FunctionName),
    /// The run was requested.
    Asked(FunctionName, Answering),
}

/// A caller whose body is passed on. If it leaves before its call begins, there is nobody to send the body.
struct PassedOnCaller(Rc<Daemon>, InvocationId);

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

impl InvocationBackend for DaemonBackend {
    fn submit(&self, mut submit: Submit) -> Answering {
        submit.id = self.next_id();
        self.once(submit)
    }

    fn pass(&self, mut submit: Submit, body: Paced, upgrade: Option<HeaderValue>) -> PassedOn {
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
        self.daemon.state.borrow_mut().workers.uploads.insert(id, Some(upload));
        let caller = Box::new(PassedOnCaller(Rc::clone(&self.daemon), id));
        let answer = self.once(submit);
        PassedOn { head, answer, caller }
    }

    fn cancel(&self, id: InvocationId) -> Answering {
        let live = self.settled().supervisor.invocation(id);
        // The end of one that is not durable is its end in any case: no other fnd runs it again.
        if live.is_none_or(|live| !live.durable) {
            return self.ask_for_all(|reply| Event::Cancel { id, reply });
        }
        let control = self.clone();
        self.answer_change(async move {
            let stored = control.store_change(vec![LedgerCommand::Cancel(id)]).await;
            // The spawner keeps the order to end one that runs, and somebody who ends it may do so because the disk is full.
            let runs = |live: InvocationRecord| live.state == RunState::Running;
            if stored.is_err() && !control.settled().supervisor.invocation(id).is_some_and(runs) {
                return Some(Answer::StoreFailed);
            }
            control.ask_for_all(|reply| Event::Cancel { id, reply }).await.ok()
        })
    }

    fn invocation(&self, id: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>> {
        let reader = self.reader.clone();
        // The record in memory is newer than the one on disk.
        let live = self.settled().supervisor.invocation(id);
        Box::pin(async move {
            let stored = reader.get(id).await.map_err(failure)?;
            let mut view = match (&live, &stored) {
                (Some(record), _) => InvocationView::of(record),
                (None, Some(stored)) => InvocationView::of(&stored.record),
                (None, None) => return Ok(None),
            };
            if let Some(stored) = stored {
                view.replay_of = stored.origin;
                // The record in memory may be older than what was read since.
                view.hook = (stored.hook_failed && view.state.is_final()).then_some(HookEnd::Failed);
                view.cause = stored.cause.as_deref().cloned();
                view.children = stored.children;
                view.parent = match &view.cause {
                    Some(Cause::Call(call)) => call.invocation,
                    _ => None,
                };
                view.attempt_records = stored.attempts.iter().map(AttemptView::of).collect();
            }
            Ok(Some(view))
        })
    }

    fn function_of(&self, id: InvocationId) -> Pending<Result<Option<FunctionName>, Failure>> {
        let reader = self.reader.clone();
        let live = self.settled().supervisor.invocation(id).map(|record| record.function);
        Box::pin(async move {
            match live {
                Some(function) => Ok(Some(function)),
                None => reader.function_of(id).await.map_err(failure),
            }
        })
    }

    fn ended(&self, id: InvocationId) -> Option<Pending<()>> {
        let state = self.settled();
        state.supervisor.invocation(id)?;
        Some(Box::pin(state.callers.wait_for_end(id)))
    }

    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>> {
        let reader = self.reader.clone();
        drop(self.settled());
        Box::pin(async move {
            let page = reader.list(filter).await.map_err(failure)?;
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
        })
    }

    fn result(&self, id: InvocationId) -> Pending<Result<Option<RunResult>, Failure>> {
        let reader = self.reader.clone();
        drop(self.settled());
        Box::pin(async move {
            match reader.result(id).await.map_err(failure)? {
                ledger::ResultOf::Ended(result) => Ok(result),
                ledger::ResultOf::Unknown | ledger::ResultOf::Unfinished(_) => Ok(None),
            }
        })
    }

    fn repeat(&self, id: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>> {
        Box::pin(self.clone().repeat_one(id, trigger))
    }

    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>> {
        let reader = self.reader.clone();
        Box::pin(async move {
            let found = reader.dead_letters(filter).await.map_err(failure)?;
            Ok(DeadLetterList {
                dead_letters: found.letters,
                next: found.next.map(|id| id.to_string()),
            })
        })
    }

    fn dead_letter(&self, id: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>> {
        let reader = self.reader.clone();
        Box::pin(async move { reader.dead_letter(id).await.map_err(failure) })
    }

    fn drop_dead_letter(&self, id: InvocationId) -> Pending<Result<Result<bool, NotStored>, Failure>> {
        Box::pin(self.clone().discard_dead_letter(id))
    }
}
