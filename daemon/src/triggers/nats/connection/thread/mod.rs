//! The loop of the thread: everything that it waits for is in one `select`, so that nothing here needs a lock and no
//! request overtakes another one. It decides nothing about messages.
//!
//! ```text
//!  no settings ─▶ connecting ─▶ up ─▶ bucket looked for ─▶ entries looked for ─▶ pulls
//!                    ▲  │        │
//!                    └──┘        └─ lost: the client connects again, and all begins with the bucket
//!                  a pause
//! ```
//! Files:
//! - `looks`: looks for objects on the server: the bucket, streams and consumers, single messages
//! - `receiving`: handles answers, messages, renewals, requests of others
//! - `sending`: sends requests to the server, and the answers about a delivery
//! - `state`: the connection: tried, up, lost; the times of the next actions

mod looks;
mod receiving;
mod sending;
mod state;

use super::connect::ConnectionEvent;
use super::entries::{Entries, NextLook};
use super::keys::HeardRenewals;
use super::pending_replies::PendingReplies;
use super::subscriptions::{Source, Subscriptions};
use crate::clock::monotonic;
use crate::triggers::nats::fact::NatsFact;
use crate::triggers::nats::request::{NatsConnect, NatsRequest};
use async_nats::{Client, Message};
use futures_util::StreamExt as _;
use futures_util::future::{LocalBoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use looks::JobDone;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep_until, timeout};

/// How long the end waits until the server has what was sent.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Bytes of requests of others that wait for the part: as many as the largest message that a server may take.
const REQUESTS_MAX: usize = 64 << 20;

/// The state of the thread.
struct NatsThread {
    events: UnboundedSender<(u64, ConnectionEvent)>,
    /// The number of the client that is tried or used: events of one before it are over.
    number: u64,
    settings: Option<Box<NatsConnect>>,
    /// A first connection that is tried.
    connecting: Option<LocalBoxFuture<'static, Result<Client, String>>>,
    /// When it is tried again.
    try_at: Option<Instant>,
    client: Option<Client>,
    /// Whether the client has a connection. Without one nothing is sent: it would wait, and go out when it is too late.
    is_up: bool,
    /// Why there is no connection, as it was reported last.
    told: Option<String>,
    /// When the client was last asked whether it has a connection. It is asked again, because an event about that may be lost.
    checked: Instant,
    bucket: NextLook,
    /// When the bucket was made that is known; absent: none is.
    bucket_made_ns: Option<u64>,
    pending: PendingReplies,
    /// The beginning of the subjects of messages that were asked for, with a dot at its end.
    pulls: String,
    subscriptions: Subscriptions,
    entries: Entries,
    heard: HeardRenewals,
    /// The memory for requests of others that wait for the part.
    room: Arc<Semaphore>,
    jobs: FuturesUnordered<LocalBoxFuture<'static, JobDone>>,
    /// The last complaint of the server, and when it came.
    complaint: Option<(String, Instant)>,
    /// When a round trip was last reported.
    measured: Option<Instant>,
    /// Facts that are not handed over yet.
    out: Vec<NatsFact>,
}

/// Why the loop goes on.
enum Wake {
    Request(NatsRequest),
    Event(u64, ConnectionEvent),
    /// The end of the first try to connect.
    Tried(Result<Client, String>),
    /// Nothing: the client has ended.
    Message(Option<(Source, Message)>),
    Job(JobDone),
    Due,
}

/// Runs until it is told to stop, or nobody can tell it anything any more.
pub(in crate::triggers::nats) async fn run(mut requests: UnboundedReceiver<NatsRequest>, facts: Sender<NatsFact>) {
    let (sender, mut events) = unbounded_channel();
    let mut thread = NatsThread::new(sender);
    loop {
        let due = thread.next_due();
        let NatsThread {
            connecting,
            subscriptions,
            jobs,
            ..
        } = &mut thread;
        let wake = tokio::select! {
            // Cancel-safe: a request is taken or stays in the channel.
            request = requests.recv() => match request {
                None | Some(NatsRequest::Stop) => break,
                Some(request) => Wake::Request(request),
            },
            // Cancel-safe: likewise. The thread has a sender itself, so the channel does not end.
            Some((client, event)) = events.recv() => Wake::Event(client, event),
            // Cancel-safe: the try stays in its place and goes on.
            Some(tried) = OptionFuture::from(connecting.as_mut()) => Wake::Tried(tried),
            // Cancel-safe: a message is taken only when it is returned.
            message = subscriptions.next() => Wake::Message(message),
            // Cancel-safe: the jobs stay in their set and go on.
            Some(done) = jobs.next(), if !jobs.is_empty() => Wake::Job(done),
            // Cancel-safe: the next turn computes the time anew.
            Some(()) = OptionFuture::from(due.map(|due| sleep_until(due.into()))) => Wake::Due,
        };
        thread.handle(wake).await;
        for fact in thread.out.drain(..) {
            // While this waits, the part has too much to do, and everything else here waits with it.
            // An error: fnd ends, and the last signals are still to be sent.
            let _ = facts.send(fact).await;
        }
    }
    if let Some(client) = thread.client.take().filter(|_| thread.is_up) {
        // An error, or too late: the server delivers again the messages of which it was not told.
        let _ = timeout(FLUSH_MAX, client.flush()).await;
    }
}

impl NatsThread {
    fn new(events: UnboundedSender<(u64, ConnectionEvent)>) -> Self {
        Self {
            events,
            number: 0,
            settings: None,
            connecting: None,
            try_at: None,
            client: None,
            is_up: false,
            told: None,
            checked: monotonic(),
            bucket: NextLook::Never,
            bucket_made_ns: None,
            pending: PendingReplies::new(""),
            pulls: String::new(),
            subscriptions: Subscriptions::default(),
            entries: Entries::default(),
            heard: HeardRenewals::default(),
            room: Arc::new(Semaphore::new(REQUESTS_MAX)),
            jobs: FuturesUnordered::new(),
            complaint: None,
            measured: None,
            out: Vec::new(),
        }
    }

    async fn handle(&mut self, wake: Wake) {
        match wake {
            Wake::Request(request) => self.request(request).await,
            Wake::Event(client, event) if client == self.number => self.event(event),
            // An event of an earlier client says nothing about this connection.
            Wake::Event(..) => {}
            Wake::Tried(tried) => self.tried(tried).await,
            Wake::Message(Some((source, message))) => self.message(source, message).await,
            Wake::Message(None) => self.client_ended(),
            Wake::Job(done) => self.job_done(done),
            Wake::Due => self.due(),
        }
        self.send_pulls().await;
    }

    /// Returns the client while it has a connection.
    fn connection(&self) -> Option<&Client> {
        self.client.as_ref().filter(|_| self.is_up)
    }
}
