//! The nodes, their links and the server, and what happens to them.

use crate::nats::journal::{now_ns, numbered_code};
use crate::nats::several::{node_behind, take_away};
use crate::nats::{self, CONSUMER, ENTRY, STREAM};
use fastrand::Rng;
use fnd_tests::Fnd;
use fnd_tests::nats::{Forwarder, NatsServer};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// The nodes.
pub(super) const NAMES: [&str; 3] = ["vm1", "vm2", "vm3"];
/// Other nodes take over after four seconds. Nothing becomes a dead letter, and no record is forgotten.
const RULES: &str = "ack_wait = \"4s\"\nmax_deliver = 1000\n[limits]\ntimeout = \"60s\"\ngrace = \"500ms\"\n\
    [retry]\nretries = 1000\ninterval = \"500ms\"\non = [\"interrupted\"]\n[pool]\nmax = 4\n[history]\nkeep = 100000\n";
/// The longest time in which a node is away, or its link is broken, in milliseconds: longer than the others wait.
const AWAY: u64 = 6000;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    KillFnd,
    KillSpawner,
    KillBoth,
    KillServer,
    /// The consumer is deleted, and with it everything that the server knows about deliveries. A node makes it again.
    DeleteConsumer,
    /// The link is cut, with what is on its way.
    Cut,
    /// Nothing comes through the link, and nobody is told.
    Stall,
    /// Everything takes longer.
    Slow,
    /// fnd is stopped; its spawner and its functions are not.
    Stop,
}

const KINDS: [Event; 13] = [
    Event::KillFnd,
    Event::KillFnd,
    Event::KillSpawner,
    Event::KillSpawner,
    Event::KillBoth,
    Event::KillBoth,
    Event::KillBoth,
    Event::KillServer,
    Event::DeleteConsumer,
    Event::Cut,
    Event::Stall,
    Event::Slow,
    Event::Stop,
];

impl Event {
    pub(super) fn choose(random: &mut Rng) -> Self {
        KINDS[random.usize(..KINDS.len())]
    }

    pub(super) fn is_kill(self) -> bool {
        match self {
            Self::KillFnd | Self::KillSpawner | Self::KillBoth | Self::KillServer => true,
            Self::DeleteConsumer | Self::Cut | Self::Stall | Self::Slow | Self::Stop => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::KillFnd => "fnd killed",
            Self::KillSpawner => "spawner killed",
            Self::KillBoth => "both killed",
            Self::KillServer => "server killed",
            Self::DeleteConsumer => "consumer deleted",
            Self::Cut => "link cut",
            Self::Stall => "link stalled",
            Self::Slow => "link slow",
            Self::Stop => "fnd stopped",
        }
    }
}

/// A node and its link.
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) fnd: Fnd,
    link: Forwarder,
    /// The event that has happened to it, and until when it lasts.
    broken: Option<(Event, Instant)>,
}

/// Everything that a storm is over.
pub(super) struct Ground {
    pub(super) server: NatsServer,
    pub(super) nodes: [Node; 3],
    /// When all processes of a node were gone.
    pub(super) deaths: Vec<(&'static str, u64)>,
}

impl Ground {
    #[track_caller]
    pub(super) fn begin(server: NatsServer) -> Self {
        let nodes = NAMES.map(|name| {
            let link = Forwarder::to(server.port());
            let fnd = node_behind(&link, name);
            nats::serve(
                &fnd,
                "take",
                &format!("{ENTRY}{RULES}"),
                &numbered_code(name, "sleep 0.1"),
            );
            Node {
                name,
                fnd,
                link,
                broken: None,
            }
        });
        Self {
            server,
            nodes,
            deaths: Vec::new(),
        }
    }

    /// Lets something happen to the server, or to a node at random. Returns what; nothing if the node is broken, or the consumer
    /// gone, already.
    #[track_caller]
    pub(super) fn happen(&mut self, event: Event, random: &mut Rng) -> Option<&'static str> {
        if event == Event::KillServer {
            self.kill_server();
            return Some(event.name());
        }
        if event == Event::DeleteConsumer {
            return self.delete_consumer().then(|| event.name());
        }
        let index = random.usize(..NAMES.len());
        if self.nodes[index].broken.is_some() {
            return None;
        }
        let away = Duration::from_millis(random.u64(..AWAY));
        self.break_node(index, (event, away), random);
        Some(event.name())
    }

    /// Kills the server, and starts it again at once.
    #[track_caller]
    pub(super) fn kill_server(&mut self) {
        self.server.kill();
        self.server.launch();
    }

    /// Deletes the consumer; returns whether there was one.
    #[track_caller]
    fn delete_consumer(&self) -> bool {
        let client = self.server.client();
        let is_there = client.consumer(STREAM, CONSUMER).is_some();
        if is_there {
            client.delete_consumer(STREAM, CONSUMER);
        }
        is_there
    }

    /// Lets something happen to a node, which is mended after this time.
    #[track_caller]
    pub(super) fn break_node(&mut self, index: usize, (event, away): (Event, Duration), random: &mut Rng) {
        let node = &mut self.nodes[index];
        match event {
            Event::KillFnd => {
                node.fnd.kill();
            }
            Event::KillSpawner => {
                node.fnd.kill_spawner();
                self.deaths.push((node.name, now_ns()));
            }
            Event::KillBoth => self.deaths.push((node.name, take_away(&mut node.fnd))),
            Event::Cut => node.link.cut(),
            Event::Stall => node.link.stall(),
            Event::Slow => node.link.delay(Duration::from_millis(random.u64(20..1500))),
            Event::Stop => node.fnd.signal(Signal::SIGSTOP),
            Event::KillServer | Event::DeleteConsumer => {}
        }
        node.broken = Some((event, fnd_tests::now() + away));
    }

    /// Mends what was broken for its time.
    #[track_caller]
    pub(super) fn mend_what_is_due(&mut self) {
        let now = fnd_tests::now();
        for node in &mut self.nodes {
            if node.broken.is_some_and(|(_, until)| until <= now) {
                node.mend();
            }
        }
    }

    #[track_caller]
    pub(super) fn mend_all(&mut self) {
        self.nodes.iter_mut().for_each(Node::mend);
    }

    /// Waits until no node has a message that is not acknowledged.
    #[track_caller]
    pub(super) fn wait_nothing_here(&self) {
        for node in &self.nodes {
            nats::wait_nothing_here(&node.fnd);
        }
    }

    #[track_caller]
    pub(super) fn finish(self) {
        for node in self.nodes {
            node.fnd.finish();
        }
    }
}

impl Node {
    #[track_caller]
    fn mend(&mut self) {
        match self.broken.take().map(|(event, _)| event) {
            Some(Event::KillFnd | Event::KillSpawner | Event::KillBoth) => self.fnd.launch(),
            Some(Event::Cut | Event::Stall | Event::Slow) => self.link.mend(),
            Some(Event::Stop) => self.fnd.signal(Signal::SIGCONT),
            Some(Event::KillServer | Event::DeleteConsumer) | None => {}
        }
    }
}
