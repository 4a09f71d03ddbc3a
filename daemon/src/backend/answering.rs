//! The answers of the supervisor, and callers that leave before theirs.

use crate::driver::Daemon;
use fnd_core::run::{Answer, Event, ReplyTo};
use fnd_wire::ids::InvocationId;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// An answer of the supervisor that comes later. A dropped sender means that fnd is stopping. If this is dropped before
/// the answer came, it reports that its caller has left.
pub(crate) struct Answering {
    pub(super) answer: oneshot::Receiver<Answer>,
    /// The caller that waits for the answer. The daemon decides whether the invocation ends with the caller.
    pub(super) caller: Option<(Rc<Daemon>, InvocationId, ReplyTo)>,
}

impl std::fmt::Debug for Answering {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Answering")
    }
}

impl From<oneshot::Receiver<Answer>> for Answering {
    fn from(answer: oneshot::Receiver<Answer>) -> Self {
        Self { answer, caller: None }
    }
}

/// An answer that is there already.
impl From<Answer> for Answering {
    fn from(answer: Answer) -> Self {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer); // the receiver is still here
        receiver.into()
    }
}

impl Future for Answering {
    type Output = Result<Answer, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        // With the answer nobody waits any more, so dropping this is no leaving.
        self.caller = None;
        Poll::Ready(answer)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Some((daemon, id, reply)) = self.caller.take() else {
            return;
        };
        {
            // This borrow ends before `step`, which borrows the state itself.
            let mut state = daemon.state.borrow_mut();
            state.callers.left(reply);
            // fnd is at its end, or another caller waits for the invocation's end.
            if state.workers.connection.is_none() || state.callers.wait_for(id) {
                return;
            }
        }
        daemon.step(Event::CallerLeft { id, reply });
    }
}
