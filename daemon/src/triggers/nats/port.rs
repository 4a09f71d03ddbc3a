//! The thread as the driver has it, and the ledger's reader, which says what is known of a message.

use super::EndedInvocation;
use super::fact::NatsFact;
use super::link::NatsLink;
use super::request::NatsRequest;
use crate::input::{Inbox, TaskOwner};
use crate::ledger::{LedgerReader, QueryError, ResultOf};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

pub(crate) struct NatsPort {
    /// Knows the messages that are done.
    reader: LedgerReader,
    /// fnd's own state directory.
    pub(crate) state: PathBuf,
    pub(crate) thread: ThreadPort,
}

/// The thread, if `[events.nats]` needs one.
pub(crate) struct ThreadPort {
    start: StartThread,
    link: NatsLink,
    facts: Option<Receiver<NatsFact>>,
    /// The request to connect for which the kernel gave no thread.
    unsent: Option<NatsRequest>,
    /// Whether the thread was asked to end.
    is_stopped: bool,
}

type StartThread = fn() -> io::Result<(NatsLink, Receiver<NatsFact>)>;

impl ThreadPort {
    fn new(link: NatsLink, start: StartThread) -> Self {
        Self {
            start,
            link,
            facts: None,
            unsent: None,
            is_stopped: false,
        }
    }

    /// Hands a request to the thread, which begins with the first request to connect. Returns whether it has begun now.
    ///
    /// # Errors
    /// If the kernel gives no thread: [`Self::start_again`] tries it once more.
    pub(crate) fn send(&mut self, request: NatsRequest) -> io::Result<bool> {
        if matches!(request, NatsRequest::Connect(_) | NatsRequest::Stop) {
            self.unsent = None;
        }
        let begins = self.link.needs_thread(self.is_stopped);
        if begins {
            if !matches!(request, NatsRequest::Connect(_)) {
                return Ok(false); // nobody would answer
            }
            // The one before was asked to end, which may take it some seconds. Nobody listens to it any more.
            self.facts = None;
            let (link, facts) = match (self.start)() {
                Ok(started) => started,
                Err(error) => {
                    self.unsent = Some(request);
                    return Err(error);
                }
            };
            (self.link, self.facts, self.is_stopped) = (link, Some(facts), false);
        }
        self.is_stopped |= matches!(request, NatsRequest::Stop);
        self.link.send(request);
        Ok(begins)
    }

    /// Starts the thread for the request to connect that found none. Returns whether it has begun now.
    ///
    /// # Errors
    /// If the kernel gives no thread.
    pub(crate) fn start_again(&mut self) -> io::Result<bool> {
        self.unsent.take().map_or(Ok(false), |request| self.send(request))
    }

    /// Waits for what the thread says; nothing once it has ended although nobody has asked for that. Cancel-safe: a fact is taken
    /// only when it is returned.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<NatsFact>> {
        let Some(facts) = &mut self.facts else {
            return Poll::Pending; // whoever starts the thread wakes the loop, which asks again
        };
        match facts.poll_recv(context) {
            Poll::Ready(None) => {
                self.facts = None;
                match self.is_stopped {
                    true => Poll::Pending,
                    false => Poll::Ready(None),
                }
            }
            said => said,
        }
    }

    /// Ends the thread, once what was handed over before is sent.
    pub(crate) fn end(&mut self) {
        if let Some(facts) = self.facts.take() {
            self.link.stop(facts);
        }
    }
}

impl NatsPort {
    pub(crate) fn new(link: NatsLink, reader: LedgerReader, state: PathBuf) -> Self {
        Self {
            reader,
            state,
            thread: ThreadPort::new(link, NatsLink::start),
        }
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
        read: impl FnOnce(Result<Option<Box<EndedInvocation>>, String>) + 'static,
    ) {
        let reader = self.reader.clone();
        inbox.spawn(TaskOwner::Caller, async move {
            read(ended(&reader, id).await.map_err(|error| error.to_string()));
        });
    }
}

/// Reads an ended invocation with its result and its payload.
async fn ended(reader: &LedgerReader, id: InvocationId) -> Result<Option<Box<EndedInvocation>>, QueryError> {
    let Some(stored) = reader.stored_invocation(id).await? else {
        return Ok(None);
    };
    let mut record = stored.record;
    if let ResultOf::Ended(result) = reader.result(id).await? {
        record.result = result;
    }
    Ok(Some(Box::new(EndedInvocation {
        record,
        payload: stored.payload,
    })))
}

#[cfg(test)]
mod tests {
    use super::super::link::DetachedThread;
    use super::super::tests::connect_to;
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static STARTED: RefCell<Option<DetachedThread>> = const { RefCell::new(None) };
    }

    fn connect() -> NatsRequest {
        NatsRequest::Connect(Box::new(connect_to(&["nats://127.0.0.1"])))
    }

    #[test]
    fn a_request_to_connect_for_which_there_was_no_thread_is_sent_when_there_is_one() {
        let mut thread = ThreadPort::new(NatsLink::idle(), || Err(io::Error::other("no thread")));
        assert!(!thread.send(NatsRequest::Stop).unwrap(), "nobody would answer");
        assert!(thread.send(connect()).is_err() && thread.start_again().is_err());
        thread.start = || {
            let (link, facts, ends) = NatsLink::detached();
            STARTED.set(Some(ends));
            Ok((link, facts))
        };
        assert!(thread.start_again().unwrap());
        let mut ends = STARTED.take().expect("it was started");
        assert!(matches!(ends.waiting.try_recv(), Ok(NatsRequest::Connect(_))));
        assert!(!thread.start_again().unwrap(), "nothing is left to send");
        assert!(ends.waiting.try_recv().is_err());
    }

    #[test]
    fn a_request_to_stop_is_not_followed_by_a_start() {
        let mut thread = ThreadPort::new(NatsLink::idle(), || Err(io::Error::other("no thread")));
        assert!(thread.send(connect()).is_err());
        let _ = thread.send(NatsRequest::Stop);
        assert!(!thread.start_again().unwrap());
    }
}
