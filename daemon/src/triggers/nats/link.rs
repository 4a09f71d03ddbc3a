//! The handle of the thread of NATS.
//!
//! The thread has a runtime of its own: a slow handshake, a storm of reconnects or a message of a megabyte is handled
//! beside the main loop. Requests go one way and facts the other; nobody waits for the other side while holding
//! something.

use super::connection;
use super::fact::NatsFact;
use super::request::NatsRequest;
use crate::effects::leaves;
use std::io;
use std::thread::JoinHandle;
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel};

/// Most facts that wait for the main loop. When it is full, the thread reads nothing any more: messages that were asked
/// for wait in the client, and the server sends no more than was asked for.
const FACTS_MAX: usize = 1024;

/// Hands requests to the thread.
pub(crate) struct NatsLink {
    /// Unbounded: the main loop must not wait for a server. Each request belongs to a message that this node has, whose
    /// number twice `max_in_flight` bounds, or to one publication that a caller waits for.
    requests: UnboundedSender<NatsRequest>,
    thread: Option<JoinHandle<()>>,
    /// Whether a test or a simulation takes the requests, in place of a thread.
    is_detached: bool,
}

impl NatsLink {
    /// Returns a handle without a thread. Requests are lost.
    pub(crate) fn idle() -> Self {
        let (requests, _) = unbounded_channel();
        Self {
            requests,
            thread: None,
            is_detached: false,
        }
    }

    /// Says whether nobody takes the requests before a thread is started. `is_stopped`: the one that there is was asked to end.
    pub(crate) fn needs_thread(&self, is_stopped: bool) -> bool {
        !self.is_detached && (self.thread.is_none() || is_stopped)
    }

    /// Starts the thread, which waits for [`NatsRequest::Connect`]. Returns the handle, and the facts, which the main
    /// loop reads. They end with the thread.
    ///
    /// # Errors
    /// If the kernel gives no thread or no descriptors for the runtime.
    pub(crate) fn start() -> io::Result<(Self, Receiver<NatsFact>)> {
        let (requests, waiting) = unbounded_channel();
        let (sender, facts) = channel(FACTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("nats".into())
            .spawn(move || runtime.block_on(connection::run(waiting, sender)))?;
        let link = Self {
            requests,
            thread: Some(thread),
            is_detached: false,
        };
        Ok((link, facts))
    }

    /// Returns a handle without a thread, and the other ends of its two channels.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached() -> (Self, Receiver<NatsFact>, DetachedThread) {
        let (requests, waiting) = unbounded_channel();
        let (sender, facts) = channel(FACTS_MAX);
        let link = Self {
            requests,
            thread: None,
            is_detached: true,
        };
        (link, facts, DetachedThread { waiting, facts: sender })
    }

    /// Hands over a request. It is lost if the thread has ended, which the end of the facts says.
    pub(crate) fn send(&self, request: NatsRequest) {
        if leaves() {
            let _ = self.requests.send(request);
        }
    }

    /// Ends the thread, once what was handed over before is sent. The server gets a second for that. Nobody reads the
    /// facts any more, so they are dropped first: the thread would wait for room among them.
    pub(crate) fn stop(&mut self, facts: Receiver<NatsFact>) {
        drop(facts);
        self.send(NatsRequest::Stop);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

/// The thread's ends of the channels. A test or a simulation holds them in place of the thread.
#[cfg(any(test, feature = "simulate"))]
pub(crate) struct DetachedThread {
    /// The requests that were handed over.
    pub(crate) waiting: tokio::sync::mpsc::UnboundedReceiver<NatsRequest>,
    pub(crate) facts: tokio::sync::mpsc::Sender<NatsFact>,
}

#[cfg(test)]
mod tests {
    use super::super::fact::NatsAnswer;
    use super::super::request::NatsConnect;
    use super::super::tests::connect_to;
    use super::*;

    fn settings(server: &str) -> Box<NatsConnect> {
        Box::new(connect_to(&[server]))
    }

    fn disconnected(fact: Option<NatsFact>) -> String {
        match fact {
            Some(NatsFact::Disconnected(why)) => why,
            fact => panic!("{fact:?}"),
        }
    }

    /// Nothing listens on the port: it was free a moment ago.
    #[test]
    fn a_server_that_is_away_is_said_once_and_questions_are_answered_at_once() {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let (mut link, mut facts) = NatsLink::start().unwrap();
        link.send(NatsRequest::Connect(settings(&format!("nats://127.0.0.1:{port}"))));
        let why = disconnected(facts.blocking_recv());
        assert!(why.contains("refused"), "{why}");
        link.send(NatsRequest::Read {
            number: 7,
            key: "claims.a".into(),
        });
        let fact = facts.blocking_recv();
        assert!(
            matches!(fact, Some(NatsFact::Answer(7, NatsAnswer::Key(Err(_))))),
            "{fact:?}"
        );
        link.stop(facts);
    }

    #[test]
    fn an_address_that_is_none_is_said() {
        let (mut link, mut facts) = NatsLink::start().unwrap();
        link.send(NatsRequest::Connect(settings("nats://a b")));
        let why = disconnected(facts.blocking_recv());
        assert!(!why.is_empty());
        link.stop(facts);
    }

    #[test]
    fn the_facts_end_with_the_thread() {
        let (mut link, mut facts) = NatsLink::start().unwrap();
        link.send(NatsRequest::Stop);
        assert!(facts.blocking_recv().is_none());
        link.stop(facts);
    }
}
