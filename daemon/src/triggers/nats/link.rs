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
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel};

/// Most facts that wait for the main loop. When it is full, the thread reads nothing any more: messages that were asked
/// for wait in the client, and the server sends no more than was asked for.
const FACTS_MAX: usize = 1024;

/// Hands requests to the thread, and its facts to the main loop. The thread begins with the first request to connect.
pub(crate) struct NatsLink {
    /// Absent where a test or a simulation takes the requests, in place of a thread.
    start: Option<StartThread>,
    running: Option<RunningThread>,
    /// The request to connect for which the kernel gave no thread.
    unsent: Option<NatsRequest>,
    /// Whether the thread was asked to end.
    is_stopped: bool,
}

type StartThread = fn() -> io::Result<RunningThread>;

/// A thread, or whoever is in its place.
struct RunningThread {
    /// Unbounded: the main loop must not wait for a server. Each request belongs to a message that this node has, whose
    /// number twice `max_in_flight` bounds, or to one publication that a caller waits for.
    requests: UnboundedSender<NatsRequest>,
    /// Absent once they have ended, which they do with the thread; or where the link is detached.
    facts: Option<Receiver<NatsFact>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningThread {
    /// Starts the thread, which waits for [`NatsRequest::Connect`].
    ///
    /// # Errors
    /// If the kernel gives no thread or no descriptors for the runtime.
    fn start() -> io::Result<Self> {
        let (requests, waiting) = unbounded_channel();
        let (sender, facts) = channel(FACTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("nats".into())
            .spawn(move || runtime.block_on(connection::run(waiting, sender)))?;
        Ok(Self {
            requests,
            facts: Some(facts),
            thread: Some(thread),
        })
    }

    /// Hands over a request. It is lost if the thread has ended, which the end of the facts says.
    fn send(&self, request: NatsRequest) {
        if leaves() {
            let _ = self.requests.send(request);
        }
    }

    /// Ends the thread after it has sent the requests that it has. The server gets a second for that. The facts are not read any
    /// more, so their queue is dropped first: the thread would wait for room in it.
    fn stop(mut self) {
        self.facts = None;
        self.send(NatsRequest::Stop);
        if let Some(thread) = self.thread {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl NatsLink {
    /// Returns a handle without a thread.
    pub(crate) fn idle() -> Self {
        Self {
            start: Some(RunningThread::start),
            running: None,
            unsent: None,
            is_stopped: false,
        }
    }

    /// Returns a handle without a thread, and the other ends of its two channels.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn detached() -> (Self, Receiver<NatsFact>, DetachedThread) {
        let (requests, waiting) = unbounded_channel();
        let (sender, facts) = channel(FACTS_MAX);
        let link = Self {
            start: None,
            running: Some(RunningThread {
                requests,
                facts: None,
                thread: None,
            }),
            ..Self::idle()
        };
        (link, facts, DetachedThread { waiting, facts: sender })
    }

    /// Hands a request to the thread, which begins with the first request to connect. Returns whether it has begun now.
    ///
    /// # Errors
    /// If the kernel gives no thread: [`Self::start_again`] tries it once more.
    pub(crate) fn send(&mut self, request: NatsRequest) -> io::Result<bool> {
        if matches!(request, NatsRequest::Connect(_) | NatsRequest::Stop) {
            self.unsent = None;
        }
        let start = self.start.filter(|_| self.running.is_none() || self.is_stopped);
        if let Some(start) = start {
            if !matches!(request, NatsRequest::Connect(_)) {
                return Ok(false); // nobody would answer
            }
            // The thread before was asked to end, which may take some seconds. Its facts are not read any more.
            self.running = None;
            match start() {
                Ok(running) => (self.running, self.is_stopped) = (Some(running), false),
                Err(error) => {
                    self.unsent = Some(request);
                    return Err(error);
                }
            }
        }
        self.is_stopped |= matches!(request, NatsRequest::Stop);
        if let Some(running) = &self.running {
            running.send(request);
        }
        Ok(start.is_some())
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
        let Some(running) = &mut self.running else {
            return Poll::Pending; // whoever starts the thread wakes the loop, which asks again
        };
        let said = running.facts.as_mut().map(|facts| facts.poll_recv(context));
        match said.unwrap_or(Poll::Pending) {
            Poll::Ready(None) => {
                running.facts = None;
                match self.is_stopped {
                    true => Poll::Pending,
                    false => Poll::Ready(None),
                }
            }
            said => said,
        }
    }

    /// Ends the thread after it has sent the requests that it has.
    pub(crate) fn end(&mut self) {
        let running = self.running.take_if(|running| running.facts.is_some());
        if let Some(running) = running {
            running.stop();
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
    use super::super::tests::connect_to;
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static STARTED: RefCell<Option<DetachedThread>> = const { RefCell::new(None) };
    }

    fn connect(server: &str) -> NatsRequest {
        NatsRequest::Connect(Box::new(connect_to(&[server])))
    }

    fn local() -> NatsRequest {
        connect("nats://127.0.0.1")
    }

    /// Returns a link for which the kernel gives no thread.
    fn threadless() -> NatsLink {
        NatsLink {
            start: Some(|| Err(io::Error::other("no thread"))),
            ..NatsLink::idle()
        }
    }

    #[test]
    fn a_request_to_connect_for_which_there_was_no_thread_is_sent_when_there_is_one() {
        let mut link = threadless();
        assert!(!link.send(NatsRequest::Stop).unwrap(), "nobody would answer");
        assert!(link.send(local()).is_err() && link.start_again().is_err());
        link.start = Some(|| {
            let (started, _, ends) = NatsLink::detached();
            STARTED.set(Some(ends));
            Ok(started.running.unwrap())
        });
        assert!(link.start_again().unwrap());
        let mut ends = STARTED.take().expect("it was started");
        assert!(matches!(ends.waiting.try_recv(), Ok(NatsRequest::Connect(_))));
        assert!(!link.start_again().unwrap(), "nothing is left to send");
        assert!(ends.waiting.try_recv().is_err());
    }

    #[test]
    fn a_request_to_stop_is_not_followed_by_a_start() {
        let mut link = threadless();
        assert!(link.send(local()).is_err());
        let _ = link.send(NatsRequest::Stop);
        assert!(!link.start_again().unwrap());
    }

    /// Returns the next fact of a thread; nothing once it has ended.
    fn fact(thread: &mut RunningThread) -> Option<NatsFact> {
        thread.facts.as_mut().unwrap().blocking_recv()
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
        let mut thread = RunningThread::start().unwrap();
        thread.send(connect(&format!("nats://127.0.0.1:{port}")));
        let why = disconnected(fact(&mut thread));
        assert!(why.contains("refused"), "{why}");
        thread.send(NatsRequest::Read {
            number: 7,
            key: "claims.a".into(),
        });
        let fact = fact(&mut thread);
        assert!(
            matches!(fact, Some(NatsFact::Answer(7, NatsAnswer::Key(Err(_))))),
            "{fact:?}"
        );
        thread.stop();
    }

    #[test]
    fn an_address_that_is_none_is_said() {
        let mut thread = RunningThread::start().unwrap();
        thread.send(connect("nats://a b"));
        let why = disconnected(fact(&mut thread));
        assert!(!why.is_empty());
        thread.stop();
    }

    #[test]
    fn the_facts_end_with_the_thread() {
        let mut thread = RunningThread::start().unwrap();
        thread.send(NatsRequest::Stop);
        assert!(fact(&mut thread).is_none());
        thread.stop();
    }
}
