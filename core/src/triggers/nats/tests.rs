//! A model of three nodes, one message and a server that delivers whenever it likes, to whom it likes: its timers promise nothing
//! here. Nodes are stopped and go on, answers are late or lost. No two attempts may run at once, and a takeover must still be
//! possible.

use super::claim::{ClaimRecord, ClaimState};
use super::delivery::{ClaimSeen, Delivery, DeliveryStep, HolderSilence, OriginalMessage, decide};
use super::lease::NodeLease;
use super::rules::tests::{entry, limits};
use super::rules::{FunctionLimits, NatsRules};
use super::witness::NodeWitness;
use crate::records::StreamPlace;
use fnd_manifest::function::NatsTrigger;
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use proptest::prelude::*;
use std::time::Duration;

const NODES: usize = 3;
const WAIT: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(1);
/// The spawner waits so long for fnd before it ends a worker itself.
const SPAWNER_WAITS: Duration = Duration::from_secs(1);
const WORKER: WorkerId = WorkerId(1);
/// The clocks of the nodes show different times.
const BOOTED: [Duration; NODES] = [Duration::ZERO, Duration::from_secs(1000), Duration::from_secs(7)];

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// Time passes, in milliseconds.
    Time(u64),
    /// The renewal of a node is sent, served or answered.
    Renew(usize),
    /// A node hears of the last renewal of another one.
    Hear(usize, usize),
    /// A node goes on with the message: it gets it, reads, decides, claims, begins.
    Work(usize),
    /// The attempt of a node fails by itself; the next one may follow.
    Fails(usize),
    /// fnd of a node is stopped. Its spawner and its functions are not.
    Stop(usize),
    /// It goes on.
    GoOn(usize),
    /// A node loses its connection, and with it what is on its way.
    Disconnect(usize),
    /// The timer of the lease rings in fnd of a node: as late as it likes.
    Fence(usize),
}

/// A claim with its revision.
type Written = (ClaimRecord, u64);

/// How far a node is with the message.
#[derive(Debug, Clone)]
enum Work {
    Idle,
    /// The claim was read at this time of the node's clock.
    Read(Option<Written>, Duration),
    /// The key of the holder was asked for at the second time.
    Asked(Written, Duration, Duration),
    /// The server has answered with this revision.
    Served(Written, (Duration, Duration), Option<u64>),
    /// A claim is on its way, in place of that of this revision.
    Sent(ClaimRecord, Option<u64>),
    /// The claim is written.
    Won(Written),
    /// An attempt runs, as far as fnd knows.
    Runs(Written),
}

struct ModelNode {
    lease: NodeLease,
    witness: NodeWitness,
    work: Work,
    /// A renewal that was sent at this time, and its revision once it was served.
    renewal: Option<(Duration, Option<u64>)>,
    is_stopped: bool,
    /// When the attempt has ended in any case, by the time of the world; absent: none runs.
    ends_at: Option<Duration>,
}

struct World {
    time: Duration,
    rules: NatsRules,
    place: StreamPlace,
    nodes: Vec<ModelNode>,
    /// The revision of the key of each node.
    keys: [Option<u64>; NODES],
    claim: Option<Written>,
    revision: u64,
    /// Attempts that have begun.
    begun: u32,
}

fn name(node: usize) -> String {
    format!("vm{node}")
}

fn id(node: usize) -> InvocationId {
    InvocationId(node as u128 + 1)
}

impl World {
    fn new() -> Self {
        let entry = NatsTrigger {
            ack_wait: WAIT,
            max_deliver: u32::MAX,
            ..entry()
        };
        let limits = FunctionLimits {
            grace: GRACE,
            ..limits(true)
        };
        let node = || ModelNode {
            lease: NodeLease::default(),
            witness: NodeWitness::default(),
            work: Work::Idle,
            renewal: None,
            is_stopped: false,
            ends_at: None,
        };
        Self {
            time: Duration::from_secs(100),
            rules: NatsRules::of(&FunctionName::new("f").unwrap(), &entry, limits),
            place: StreamPlace {
                stream: "ORDERS".into(),
                created_ns: 1,
                sequence: 7,
            },
            nodes: (0..NODES).map(|_| node()).collect(),
            keys: [None; NODES],
            claim: None,
            revision: 0,
            begun: 0,
        }
    }

    /// Returns the time on the clock of a node.
    fn own(&self, node: usize) -> Duration {
        self.time + BOOTED[node]
    }

    fn lease(&self) -> Duration {
        self.rules.lease().unwrap()
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn make(&mut self, step: Move) {
        match step {
            Move::Time(ms) => self.pass(Duration::from_millis(ms)),
            Move::Renew(node) => self.renew(node),
            Move::Hear(node, other) => {
                let now = self.own(node);
                if let (Some(revision), false, true) = (self.keys[other], self.nodes[node].is_stopped, node != other) {
                    self.nodes[node].witness.heard(&name(other), revision, now);
                }
            }
            Move::Work(node) => self.work(node),
            Move::Fails(node) => self.nodes[node].ends_at = None,
            Move::Stop(node) => self.nodes[node].is_stopped = true,
            Move::GoOn(node) => self.nodes[node].is_stopped = false,
            Move::Disconnect(node) => {
                let node = &mut self.nodes[node];
                (node.renewal, node.work) = match &node.work {
                    Work::Won(_) | Work::Runs(_) => (None, node.work.clone()),
                    _ => (None, Work::Idle),
                };
                node.lease.disconnected();
                node.witness.disconnected();
            }
            Move::Fence(node) => self.fence(node),
        }
    }

    /// Time passes; spawners end what is over.
    fn pass(&mut self, time: Duration) {
        self.time += time;
        for node in &mut self.nodes {
            node.ends_at = node.ends_at.filter(|end| *end > self.time);
        }
    }

    /// An fnd that is not stopped ends its attempt when the time is over.
    fn fence(&mut self, node: usize) {
        let (now, time) = (self.own(node), self.time);
        let node = &mut self.nodes[node];
        if !node.is_stopped && !node.lease.fence(now).is_empty() {
            node.ends_at = node.ends_at.map(|end| end.min(time + GRACE));
        }
    }

    fn renew(&mut self, node: usize) {
        let now = self.own(node);
        match self.nodes[node].renewal {
            // The server serves what was sent before fnd was stopped.
            Some((sent, None)) => {
                let revision = self.next_revision();
                self.keys[node] = Some(revision);
                self.nodes[node].renewal = Some((sent, Some(revision)));
            }
            _ if self.nodes[node].is_stopped => {}
            Some((sent, Some(_))) => {
                self.nodes[node].renewal = None;
                self.nodes[node].lease.renewed((sent, now));
                self.tell_spawner(node);
            }
            None => {
                self.nodes[node].lease.sends(now);
                self.nodes[node].renewal = Some((now, None));
            }
        }
    }

    /// Tells the spawner the deadline of the worker.
    fn tell_spawner(&mut self, node: usize) {
        let (now, time) = (self.own(node), self.time);
        let node = &mut self.nodes[node];
        if let (Some(_), Some(end)) = (node.ends_at, node.lease.deadlines().get(&WORKER)) {
            node.ends_at = Some(time + end.saturating_sub(now) + SPAWNER_WAITS + GRACE);
        }
    }

    fn work(&mut self, node: usize) {
        let work = std::mem::replace(&mut self.nodes[node].work, Work::Idle);
        let next = match work {
            Work::Asked(claim, read, asked) => {
                let holder = (0..NODES).find(|other| name(*other) == claim.0.node).unwrap();
                Work::Served(claim, (read, asked), self.keys[holder])
            }
            Work::Sent(claim, replaced) => self.write(node, claim, replaced),
            _ if self.nodes[node].is_stopped => work,
            Work::Idle => Work::Read(self.claim.clone(), self.own(node)),
            Work::Read(None, _) => self.first_claim(node),
            // Its own claim: the ledger knows that the attempt has ended.
            Work::Read(Some(claim), _) if claim.0.node == name(node) => self.claims(node, claim),
            Work::Read(Some(claim), read) => Work::Asked(claim, read, self.own(node)),
            Work::Served(claim, times, revision) => self.decides(node, &claim, times, revision),
            Work::Won(claim) if claim.0.state == ClaimState::Held => self.claims(node, claim),
            Work::Won(claim) => self.begins(node, claim),
            // It has ended: by itself, by the fence or by the spawner.
            Work::Runs(claim) if self.nodes[node].ends_at.is_none() => {
                self.nodes[node].lease.ended(id(node));
                self.claims(node, claim)
            }
            Work::Runs(claim) => Work::Runs(claim),
        };
        self.nodes[node].work = next;
    }

    fn first_claim(&mut self, node: usize) -> Work {
        let first = ClaimRecord {
            function: FunctionName::new("f").unwrap(),
            node: name(node),
            process: 1,
            invocation: id(node),
            state: ClaimState::Held,
            attempts: 0,
            lost: 0,
            at_ms: 0,
            limit: self.rules.limit(0),
            stream: self.place.stream.to_string(),
            sequence: self.place.sequence,
        };
        let (lease, now) = (self.lease(), self.own(node));
        match self.nodes[node].lease.hold(id(node), lease, now) {
            true => Work::Sent(first.begins(0, self.rules.limit(0)), None),
            false => Work::Idle,
        }
    }

    /// Sends the claim of the next attempt.
    fn claims(&mut self, node: usize, (claim, revision): Written) -> Work {
        let (lease, now) = (self.lease(), self.own(node));
        match self.nodes[node].lease.hold(id(node), lease, now) {
            true => Work::Sent(claim.begins(0, claim.limit), Some(revision)),
            false => Work::Won((claim, revision)).waits(),
        }
    }

    /// The server compares and sets.
    fn write(&mut self, node: usize, claim: ClaimRecord, replaced: Option<u64>) -> Work {
        let present = self.claim.as_ref().map(|(_, revision)| *revision);
        if present != replaced {
            self.nodes[node].lease.ended(id(node));
            return Work::Idle;
        }
        let revision = self.next_revision();
        self.claim = Some((claim.clone(), revision));
        Work::Won((claim, revision))
    }

    fn decides(
        &mut self,
        node: usize,
        claim: &Written,
        (read, asked): (Duration, Duration),
        revision: Option<u64>,
    ) -> Work {
        let now = self.own(node);
        let witness = &mut self.nodes[node].witness;
        witness.answered(&claim.0.node, revision, (asked, now));
        let silence = witness.silence(&claim.0.node, WAIT, (read, now));
        let step = decide(&Delivery {
            rules: &self.rules,
            place: &self.place,
            delivered: 2,
            takes_work: true,
            local: None,
            is_looked_up: true,
            looks_first: false,
            claim: &ClaimSeen::Found(Box::new(claim.0.clone()), claim.1),
            silence: HolderSilence::Other(silence),
            original: OriginalMessage::There,
            now_ms: 0,
        });
        match step {
            DeliveryStep::TakeOver(takeover) => {
                assert_eq!((takeover.revision, takeover.attempts), (claim.1, claim.0.attempts));
                let taken = claim.0.taken_over((&name(node), 1), id(node), 0);
                Work::Sent(taken, Some(takeover.revision))
            }
            DeliveryStep::GiveBack(_) => Work::Idle,
            other => panic!("{other:?}"),
        }
    }

    fn begins(&mut self, node: usize, claim: Written) -> Work {
        let now = self.own(node);
        if !self.nodes[node].lease.is_held(id(node), now) {
            // fnd was stopped since the claim was sent: the claim is written anew first.
            self.nodes[node].lease.ended(id(node));
            return self.claims(node, claim);
        }
        let others = self.nodes.iter().filter(|other| other.ends_at.is_some()).count();
        assert_eq!(others, 0, "two attempts run at once");
        self.begun += 1;
        assert!(self.begun <= claim.0.attempts, "an attempt was not counted");
        self.nodes[node].lease.starts(id(node), (WORKER, None));
        self.nodes[node].ends_at = Some(Duration::MAX);
        self.tell_spawner(node);
        Work::Runs(claim)
    }
}

impl Work {
    /// Returns the state of a node whose lease is over: it writes its claim once it has one again.
    fn waits(self) -> Self {
        match self {
            Self::Won((claim, revision)) => {
                let held = ClaimRecord {
                    state: ClaimState::Held,
                    ..claim
                };
                Self::Won((held, revision))
            }
            other => other,
        }
    }
}

fn step() -> impl Strategy<Value = Move> {
    let node = 0..NODES;
    prop_oneof![
        3 => (0..4000_u64).prop_map(Move::Time),
        6 => node.clone().prop_map(Move::Renew),
        2 => (node.clone(), node.clone()).prop_map(|(node, other)| Move::Hear(node, other)),
        8 => node.clone().prop_map(Move::Work),
        1 => node.clone().prop_map(Move::Fails),
        1 => node.clone().prop_map(Move::Stop),
        2 => node.clone().prop_map(Move::GoOn),
        1 => node.clone().prop_map(Move::Disconnect),
        2 => node.prop_map(Move::Fence),
    ]
}

proptest! {
    #[test]
    fn no_two_attempts_run_at_once(steps in proptest::collection::vec(step(), 1..300)) {
        let mut world = World::new();
        for step in steps {
            world.make(step);
        }
    }
}

/// Renews the lease of a node at once.
fn renewed(world: &mut World, node: usize) {
    (0..3).for_each(|_| world.make(Move::Renew(node)));
}

#[test]
fn the_message_of_a_killed_node_begins_elsewhere_within_ack_wait() {
    let mut world = World::new();
    renewed(&mut world, 0);
    renewed(&mut world, 1);
    (0..4).for_each(|_| world.make(Move::Work(0)));
    assert!(world.nodes[0].ends_at.is_some());
    world.make(Move::Hear(1, 0));
    world.make(Move::Stop(0));
    let killed = world.time;
    // Node 1 is offered the message all the time.
    while world.begun < 2 {
        world.make(Move::Time(250));
        renewed(&mut world, 1);
        world.make(Move::Work(1));
        assert!(world.time - killed < WAIT + Duration::from_secs(4), "nobody goes on");
    }
    assert!(world.time - killed >= WAIT);
    assert!(world.nodes[0].ends_at.is_none(), "the spawner has ended it");
}

#[test]
fn a_node_that_was_stopped_before_its_start_claims_again_and_finds_that_it_is_replaced() {
    let mut world = World::new();
    renewed(&mut world, 0);
    renewed(&mut world, 1);
    // The claim of node 0 is written, and its attempt has not begun.
    (0..3).for_each(|_| world.make(Move::Work(0)));
    world.make(Move::Hear(1, 0));
    world.make(Move::Stop(0));
    while world.nodes[1].ends_at.is_none() {
        world.make(Move::Time(250));
        renewed(&mut world, 1);
        world.make(Move::Work(1));
    }
    world.make(Move::GoOn(0));
    renewed(&mut world, 0);
    (0..3).for_each(|_| world.make(Move::Work(0)));
    assert!(world.nodes[0].ends_at.is_none() && world.nodes[1].ends_at.is_some());
    assert_eq!(world.begun, 1);
}
