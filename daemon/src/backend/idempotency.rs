//! Idempotency keys: a request with the key of an earlier invocation gets that invocation's answer. Also repeats an
//! invocation with the same payload.
//!
//! The supervisor knows the keys of live invocations, the ledger the keys of all it has. A request with a known key is
//! answered from there. Requests with one key take turns, so that none is accepted between another's look-up and
//! acceptance.

use super::{Answering, Backend, Failure, NotStored, Repeated, failure};
use crate::ledger::{LedgerCommand, StoredInvocation};
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::records::FileMark;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::{Answer, Event, Rejection, Submit};
use fnd_manifest::function::FileTrigger;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A function, and the identity of a key.
type FunctionKey = (FunctionName, Arc<str>);

/// Keys that are being looked up; each lock is held by one request, and others wait for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys(Rc<RefCell<HashMap<FunctionKey, Rc<Mutex<()>>>>>);

impl Keys {
    fn turn(&self, key: &FunctionKey) -> Rc<Mutex<()>> {
        Rc::clone(self.0.borrow_mut().entry(key.clone()).or_default())
    }

    /// Removes a key for which no request waits.
    fn leave(&self, key: &FunctionKey, turn: &Rc<Mutex<()>>) {
        let mut keys = self.0.borrow_mut();
        // One reference is ours, one the table's.
        if Rc::strong_count(turn) <= 2 {
            keys.remove(key);
        }
    }
}

impl Backend {
    pub(crate) fn next_id(&self) -> InvocationId {
        self.daemon.state.borrow_mut().next_id()
    }

    /// Returns a request to run with a new id.
    pub(super) fn new_submit(&self, function: FunctionName, trigger: Trigger) -> Submit {
        self.daemon.state.borrow_mut().new_submit(function, trigger)
    }

    fn submit_now(&self, mut submit: Submit) -> Answering {
        let (id, waits) = (submit.id, submit.wait);
        let (answer, reply) = self.daemon.state.borrow_mut().callers.expect_answer();
        submit.reply = Some(reply);
        self.daemon.answer_first(Event::Submit(Box::new(submit)));
        // The caller is named without a further allocation, because every call passes here.
        let caller = waits.then(|| (Rc::clone(&self.daemon), id, reply));
        Answering { answer, caller }
    }

    /// Submits; if an invocation has the key already, the request gets that invocation's answer.
    pub(crate) fn once(&self, submit: Submit) -> Answering {
        let Some(key) = submit.idempotency_key.clone() else {
            return self.submit_now(submit);
        };
        let is_live = self.settled().supervisor.has_key(&submit.function, &key);
        if is_live {
            return self.submit_now(joining(submit));
        }
        let control = self.clone();
        // The task ends with its answer. If the caller has gone, an invocation with a key goes on without it.
        self.to_the_end(async move { control.find(submit, key).await.await.ok() })
            .into()
    }

    async fn find(&self, submit: Submit, key: IdempotencyKey) -> Answering {
        let named = (submit.function.clone(), Arc::from(key.identity()));
        let turn = self.keys.turn(&named);
        let waiting = turn.lock().await;
        // Looked up again: a request with this key may have been accepted while this one waited for its turn.
        let is_live = self.settled().supervisor.has_key(&submit.function, &key);
        let found = if is_live {
            self.submit_now(joining(submit))
        } else {
            match self.answer_of((&submit.function, &key), submit.wait).await {
                Ok(Some(answer)) => answer.into(),
                // Records of runs that ended since may be in memory only.
                Ok(None) if self.settled().records.ledger.health().failing.is_some() => {
                    unavailable("the disk takes no records, so it is not known whether this key ran before")
                }
                Ok(None) => self.submit_now(submit),
                Err(Failure(error)) => {
                    tracing::error!("failed to look up an idempotency key: {error}");
                    unavailable("the history cannot be read, and with it whether this key ran before")
                }
            }
        };
        drop(waiting);
        self.keys.leave(&named, &turn);
        found
    }

    /// Returns the answer of the invocation with a key, if the history has one.
    async fn answer_of(
        &self,
        (function, key): (&FunctionName, &IdempotencyKey),
        wait: bool,
    ) -> Result<Option<Answer>, Failure> {
        let found = self.reader.keyed(function.clone(), key.clone()).await;
        let Some((id, stored)) = found.map_err(failure)? else {
            return Ok(None);
        };
        // The sender has used its key for another request; the answer to that one would be wrong here.
        if stored != *key {
            return Ok(Some(Answer::Rejected(Rejection::KeyReused)));
        }
        let Some(whole) = self.reader.get(id).await.map_err(failure)? else {
            return Ok(None);
        };
        if wait && whole.record.state.is_final() {
            return Ok(Some(Answer::Finished(Box::new(whole.record))));
        }
        // One that is not durable has ended. A power cut must not take back its end, which would leave it `interrupted`.
        if !whole.record.durable && self.store_change(Vec::new()).await.is_err() {
            return Ok(Some(Answer::StoreFailed));
        }
        Ok(Some(Answer::Queued(id)))
    }

    /// Queues the payload of an invocation again, as [`Trigger::Replay`], or as [`Trigger::Redrive`] if it is a dead
    /// letter.
    pub(crate) async fn repeat(&self, id: InvocationId, trigger: Trigger) -> Result<Repeated, Failure> {
        let Some(StoredInvocation {
            record,
            payload,
            dead,
            superseded_by,
        }) = self.history().stored_invocation(id).await.map_err(failure)?
        else {
            return Ok(Repeated::Unknown);
        };
        if !record.state.is_final() {
            return Ok(Repeated::NotEnded(record.function, record.state));
        }
        let redrive = trigger == Trigger::Redrive;
        // A person asks for a replay, so the state of the work does not matter.
        if let Some(node) = superseded_by.filter(|_| redrive) {
            return Ok(Repeated::Superseded(record.function, node));
        }
        if redrive && !dead {
            return Ok(Repeated::NotDead(record.function, record.state));
        }
        let Some(mut payload) = payload else {
            return Ok(Repeated::NotKept(record.function));
        };
        let buffers = Arc::clone(&self.daemon.state.borrow().callers.buffers);
        // The ledger's reader has read all of it into memory; from here on the budget counts it.
        payload.data = payload.data.map(|data| buffers.hold(&data));
        // Its caller does not run any more: nobody called this one.
        payload.cause = payload.cause.filter(|cause| !matches!(**cause, Cause::Call(_)));
        let mut files = Vec::new();
        if let Some(Cause::File(cause)) = payload.cause.as_mut().map(Arc::make_mut) {
            let run = *cause.run.get_or_insert(id);
            if self.acts_on_files(&record.function) {
                files.push(FileMark::Repeated { run });
            }
        }
        let function = record.function.clone();
        let answering = self.once(Submit {
            payload,
            // However often it is asked for, a dead letter is redriven once.
            idempotency_key: redrive.then(|| IdempotencyKey::new(KeyOwner::Redrive, &id.to_string(), [])),
            origin: Some(id),
            files,
            ..self.new_submit(record.function, trigger)
        });
        Ok(Repeated::Asked(function, answering))
    }

    /// Returns whether a function does something with its files after their runs.
    fn acts_on_files(&self, function: &FunctionName) -> bool {
        let state = self.daemon.state.borrow();
        let serving = state.serving(function);
        serving.is_some_and(|serving| serving.manifest.file.iter().any(FileTrigger::acts))
    }

    /// Removes an invocation from the dead letters, durably; returns whether it was one. Its record stays in the
    /// history.
    pub(crate) async fn drop_dead_letter(&self, id: InvocationId) -> Result<Result<bool, NotStored>, Failure> {
        let is_dead = |stored: Option<StoredInvocation>| stored.is_some_and(|stored| stored.dead);
        if !is_dead(self.history().stored_invocation(id).await.map_err(failure)?) {
            return Ok(Ok(false));
        }
        let stored = self.store_change(vec![LedgerCommand::DiscardDeadLetter(id)]).await;
        Ok(stored.map(|()| true))
    }
}

/// Returns a request that joins the live invocation of its key. A sender of webhooks repeats a request because the first
/// one takes long, so it is answered at once.
fn joining(submit: Submit) -> Submit {
    let wait = submit.wait && submit.trigger != Trigger::Http;
    Submit { wait, ..submit }
}

fn unavailable(reason: &str) -> Answering {
    let reason = reason.to_owned();
    Answer::Rejected(Rejection::Unavailable { reason }).into()
}
