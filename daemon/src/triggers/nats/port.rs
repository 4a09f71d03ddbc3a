//! What the driver holds beside the books: the handle of the thread, and the reader of the ledger, which finds the rows of messages.

use super::link::NatsLink;
use crate::input::{Inbox, TaskOwner};
use crate::ledger::{LedgerReader, QueryError, ResultOf, StoredInvocation};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) struct NatsPort {
    /// Knows the messages that are done.
    reader: LedgerReader,
    /// fnd's own state directory.
    pub(crate) state: PathBuf,
    pub(crate) thread: NatsLink,
}

impl NatsPort {
    pub(crate) fn new(thread: NatsLink, reader: LedgerReader, state: PathBuf) -> Self {
        Self { reader, state, thread }
    }

    /// Asks the ledger for the message of a function with this key; `known` gets the answer, or why there is none.
    pub(crate) fn look_up(
        &self,
        inbox: &Inbox,
        (function, key): (FunctionName, Arc<str>),
        known: impl FnOnce(Result<Option<Box<KnownMessage>>, String>) + 'static,
    ) {
        let reader = self.reader.clone();
        inbox.spawn(TaskOwner::Caller, async move {
            let found = reader.message(function, key).await;
            let found = found.map(|found| found.map(Box::new));
            known(found.map_err(|error| error.to_string()));
        });
    }

    /// Asks the ledger for an ended invocation; `read` gets the answer, or why there is none.
    pub(crate) fn read_end(
        &self,
        inbox: &Inbox,
        id: InvocationId,
        read: impl FnOnce(Result<Option<Box<StoredInvocation>>, String>) + 'static,
    ) {
        let reader = self.reader.clone();
        inbox.spawn(TaskOwner::Caller, async move {
            read(ended(&reader, id).await.map_err(|error| error.to_string()));
        });
    }
}

/// Reads an ended invocation with its result and its payload.
async fn ended(reader: &LedgerReader, id: InvocationId) -> Result<Option<Box<StoredInvocation>>, QueryError> {
    let Some(mut stored) = reader.stored_invocation(id).await? else {
        return Ok(None);
    };
    if let ResultOf::Ended(result) = reader.result(id).await? {
        stored.record.result = result;
    }
    Ok(Some(Box::new(stored)))
}
