//! A small world around the supervisor: a spawner that answers at any time, a ledger that answers late, and checks of
//! all invariants.
//!
//! Files:
//! - `answers`: what the ledger, the spawner and the workers answer
//! - `judge`: checks the invariants at every action and at the end
//! - `restart`: fnd ends and comes back
//! - `step`: the steps of a random run, and the rules of its functions

mod answers;
mod judge;
mod restart;
mod step;

use super::bench::{EPOCH_MS, MIB, exit, id, name, quiet, rules, secs, text};
use crate::idempotency::IdempotencyKey;
use crate::records::Attributes;
use crate::records::cause::{Cause, EventCause};
use crate::records::outcome::{Class, Reason, Trigger};
use crate::records::{Accepted, InvocationRecord, Payload};
use crate::run::{
    Action, Adopted, AdoptedMember, Answered, Calling, Delivered, Event, Exited, FunctionKind, Http, InstalledVersion,
    NodeBudget, Now, Overlap, Poll, Pool, Publication, Publish, QueueRules, ReplyTo, Restored, Rules, Service, Shares,
    SpawnOrder, Submit, Supervisor,
};
use crate::run_state::releases::shares_calls;
use fnd_manifest::function::Listen;
use fnd_wire::frame::{ExitStatus, TermCause};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

pub(super) use step::{Step, variant};

pub(super) const FUNCTIONS: u8 = 4;
/// The most retries any of [`variant`]'s rules allows.
const RETRIES: u32 = 2;
const BUDGET: NodeBudget = NodeBudget {
    memory: 100 * MIB,
    cpu_milli: Some(1500),
    workers: 5,
};

const GROUPS: [(&str, u32); 2] = [("db", 1), ("licence", 3)];

/// A worker as the spawner sees it.
struct Process {
    order: SpawnOrder,
    /// The adoption record at the spawner, and the worker's start.
    record: String,
    since: Duration,
    memory: u64,
    cpu_milli: u32,
    grace: Duration,
    started: bool,
    term: Option<Duration>,
    killed: bool,
    /// For a handler: most calls at once; absent before it is ready.
    ready: Option<usize>,
    calls: BTreeMap<u64, InvocationId>,
    /// The calls that it was told to end, and when.
    cancelled: BTreeMap<u64, Duration>,
    served: u32,
    stopped: bool,
    /// Whether it broke the protocol, so that it may be killed at once.
    broken: bool,
}

impl Process {
    fn is_pooled(&self) -> bool {
        self.order.attempt.is_none()
    }

    /// Says whether it will end by itself.
    fn is_to_end(&self) -> bool {
        !self.is_pooled() || self.stopped || self.term.is_some() || self.killed || self.broken
    }
}

/// An invocation as the ledger sees it.
#[derive(Debug)]
struct Entry {
    accepted: Accepted,
    stored: bool,
    record: Option<InvocationRecord>,
    /// Number of attempts whose end is recorded.
    ended: u32,
    /// The claim that is being stored, and the attempt whose claim is stored.
    claim: Option<InvocationRecord>,
    claimed: Option<u32>,
    /// The newest attempt that a function has seen.
    begun: u32,
    /// Another node has it, and nothing of it has begun here.
    withdrawn: bool,
}

pub(super) struct World {
    s: Supervisor,
    now: Now,
    ids: u128,
    replies: u64,
    calls: u64,
    budget: NodeBudget,
    /// `[groups]`.
    groups: BTreeMap<&'static str, u32>,
    /// Versions and rules of the installed functions.
    installed: BTreeMap<FunctionName, (Version, Rules)>,
    /// Versions that get a share of the calls.
    canaries: BTreeMap<FunctionName, Version>,
    refused: BTreeSet<FunctionName>,
    disabled: BTreeSet<FunctionName>,
    /// Functions that were installed since the directories were quiet.
    unsettled: BTreeSet<FunctionName>,
    loaded: BTreeSet<(FunctionName, Version)>,
    ledger: BTreeMap<InvocationId, Entry>,
    to_store: Vec<InvocationId>,
    /// Shares of events that are being stored, and the events that are stored.
    to_publish: Vec<Shares>,
    events: BTreeMap<std::sync::Arc<str>, Delivered>,
    to_claim: Vec<InvocationId>,
    /// Invocations whose end calls follow.
    followed: BTreeSet<InvocationId>,
    processes: BTreeMap<WorkerId, Process>,
    /// Services for which a run was requested.
    requested: Vec<FunctionName>,
    /// Answers that callers still wait for.
    owed: BTreeSet<ReplyTo>,
    spawner: bool,
    /// Whether the spawner does not answer.
    silent: bool,
    next_worker: u64,
    draining: bool,
    stopping: bool,
    drained: bool,
    /// All actions of the supervisor as text, to compare two runs.
    pub(super) log: String,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now = Now {
            mono: secs(1),
            unix_ms: EPOCH_MS + 1000,
        };
        let mut world = Self {
            s: Supervisor::new(seed, BUDGET, WorkerId(1)),
            now,
            ids: 0,
            replies: 0,
            calls: 0,
            budget: BUDGET,
            groups: GROUPS.into(),
            installed: BTreeMap::new(),
            canaries: BTreeMap::new(),
            refused: BTreeSet::new(),
            disabled: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            loaded: BTreeSet::new(),
            ledger: BTreeMap::new(),
            to_store: Vec::new(),
            to_publish: Vec::new(),
            events: BTreeMap::new(),
            to_claim: Vec::new(),
            followed: BTreeSet::new(),
            processes: BTreeMap::new(),
            requested: Vec::new(),
            owed: BTreeSet::new(),
            spawner: true,
            silent: false,
            next_worker: 1,
            draining: false,
            stopping: false,
            drained: false,
            log: String::new(),
        };
        world.s.set_groups(GROUPS);
        for n in 0..FUNCTIONS {
            world.install(n, n);
        }
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Submit { .. } => self.submit(step),
            Step::Publish { .. } => self.publish(step),
            Step::Store { which, fine } => {
                let Some(at) = choose(which, self.to_store.len() + self.to_publish.len()) else {
                    return;
                };
                if at < self.to_store.len() {
                    let id = self.to_store.remove(at);
                    self.stored(id, fine);
                } else {
                    let shares = self.to_publish.remove(at - self.to_store.len());
                    self.published(&shares, fine);
                }
            }
            Step::Claim { fine } => self.answer_claims(fine),
            Step::PutOff { which, fine, ms } => self.put_off(which, fine, Duration::from_millis(ms.into())),
            Step::LoseLease { which } => {
                let id = id(u128::from(which) % (self.ids + 1));
                self.handle(Event::LeaseLost(vec![(id, secs(3))]));
            }
            Step::OtherNode { which, has_it } => self.other_node(which, has_it),
            Step::Spawn { which, fine } => self.answer_spawn(which, fine),
            Step::NoRoom { which } => self.no_room(which),
            Step::Silence(silent) => {
                self.silent = silent;
                self.handle(Event::SpawnerAnswers(!silent));
            }
            Step::Exit {
                which,
                code,
                oom,
                result,
            } => self.exit(which, code, (oom, result)),
            Step::ExitAgain { worker } => {
                let worker = WorkerId(u64::from(worker) % self.next_worker.max(1));
                if !self.processes.contains_key(&worker) {
                    self.handle(Event::Exited(Box::new(exit(worker.0, ExitStatus::Code(0)))));
                    self.handle(Event::Spawned(worker));
                }
            }
            Step::Ready { which, fine } => self.ready(which, fine),
            Step::Answer { which, reason } => self.answer(which, reason),
            Step::Break { which, how } => {
                let workers = self.some_processes(|process| process.is_pooled() && process.started);
                let Some(at) = choose(which, workers.len()) else { return };
                let worker = workers[at];
                self.processes.get_mut(&worker).unwrap().broken = true;
                self.handle(match how % 3 {
                    0 => Event::Closed(worker),
                    1 => Event::Broken {
                        worker,
                        message: "nonsense".to_owned(),
                    },
                    // A call number above all others, including those of workers that were handed over.
                    _ => answered(worker, u64::MAX, Reason::Ok),
                });
            }
            Step::Cancel { which } => {
                let id = id(u128::from(which) % (self.ids + 1));
                let reply = self.reply();
                self.handle(Event::Cancel { id, reply });
            }
            Step::Enable { function, enabled } => {
                let (function, reply) = (nth(function), self.reply());
                // For a function that exists it is stored first.
                let exists = self.s.function(&function).is_some();
                if exists && enabled {
                    self.disabled.remove(&function);
                } else if exists {
                    self.disabled.insert(function.clone());
                }
                self.handle(Event::SetEnabled {
                    function,
                    enabled,
                    reply,
                });
            }
            Step::Full { function, full } => {
                let why = full.then(|| "full".into());
                self.handle(Event::Full {
                    function: nth(function),
                    why,
                });
            }
            Step::Canary {
                function,
                variant,
                percent,
            } => {
                let installed = self.version(function, variant);
                let serving = self.installed.get(&installed.function);
                let beside = |(version, rules): &(Version, Rules)| {
                    *version != installed.version && shares_calls(rules, &installed.rules)
                };
                if serving.is_some_and(beside) {
                    self.canaries.insert(installed.function.clone(), installed.version);
                } else {
                    self.serves(function, variant);
                }
                self.handle(Event::Canary { installed, percent });
            }
            Step::CanaryOver { function } => {
                self.canaries.remove(&nth(function));
                self.handle(Event::CanaryOver(nth(function)));
            }
            Step::View { function } => self.handle(Event::ViewChanged(nth(function))),
            Step::Install { function, variant } => self.install(function, variant),
            Step::Quiet => {
                self.unsettled.clear();
                self.handle(quiet());
            }
            Step::Refuse { function } => {
                let function = nth(function);
                if !self.installed.contains_key(&function) {
                    self.refused.insert(function.clone());
                }
                let error = "bad".to_owned();
                self.handle(Event::Refused { function, error });
            }
            Step::Remove { function } => {
                self.installed.remove(&nth(function));
                self.refused.remove(&nth(function));
                self.handle(Event::Removed(nth(function)));
            }
            Step::Wait { ms } => self.pass(Duration::from_millis(ms.into())),
            Step::WaitForDeadline => {
                if let Some(at) = self.s.next_deadline() {
                    self.pass(at - self.now.mono);
                }
            }
            Step::LoseSpawner => {
                self.spawner = false;
                self.processes.clear();
                self.handle(Event::SpawnerLost);
                // fnd ends when the spawner is lost.
                self.restart(false, false, 0);
            }
            Step::DrainAndBack { exits } => {
                self.draining = true;
                self.handle(Event::Drain);
                for _ in 0..exits {
                    self.exit(0, 0, (false, false));
                }
                (self.draining, self.drained) = (false, false);
                self.handle(Event::CancelDrain);
            }
            Step::Restart {
                in_order,
                workers_survive,
                exits,
            } => self.restart(in_order, workers_survive, exits),
            Step::Budget { small } => {
                self.budget.memory = if small { 60 * MIB } else { BUDGET.memory };
                self.s.set_budget(self.budget);
                // Without the licence, its functions may have one attempt at once.
                self.groups = if small { [("db", 2)].into() } else { GROUPS.into() };
                self.s.set_groups(self.groups.clone());
                self.handle(Event::Tick);
            }
        }
    }

    fn submit(&mut self, step: &Step) {
        let Step::Submit {
            function,
            wait,
            timeout,
            later,
            expires,
            keyed,
            caller,
        } = *step
        else {
            unreachable!("the caller matched it");
        };
        let (id, reply) = (self.id(), self.reply());
        let ahead = |ms, wanted: bool| wanted.then(|| self.now.unix_ms + ms);
        let running = self.ledger.iter().filter(|(_, entry)| entry.is_running());
        let running: Vec<_> = running.map(|(id, entry)| (*id, &entry.accepted.function)).collect();
        let caller = caller.and_then(|which| running.get(choose(which, running.len())?));
        let submit = Submit {
            calling: caller.map(|(id, function)| Calling {
                function: (*function).clone(),
                invocation: Some(*id),
            }),
            reply: Some(reply),
            wait,
            timeout: timeout.then(|| secs(1)),
            not_before_ms: ahead(1500, later),
            expires_ms: ahead(2500, expires),
            priority: if later { 1 } else { 0 },
            idempotency_key: keyed.then(|| IdempotencyKey::stored("key".into())),
            payload: self.payload(),
            ..submit_of(nth(function), id)
        };
        self.handle(Event::Submit(Box::new(submit)));
    }

    fn publish(&mut self, step: &Step) {
        let Step::Publish {
            functions,
            event,
            order,
        } = *step
        else {
            unreachable!("the caller matched it");
        };
        let cause = Cause::Event(EventCause {
            attributes: Attributes::default(),
            order_key: (order < 2).then(|| order.to_string()),
            depth: 0,
        });
        // The second event of the request is the same for every second request.
        let events = [event, event % 2].map(|event| {
            let chosen = (0..FUNCTIONS).filter(|n| functions & (1 << n) != 0);
            let submits = chosen.map(|n| {
                let mut submit = Submit::new(self.id(), nth(n), Trigger::Event);
                submit.payload = self.payload();
                submit.payload.cause = Some(std::sync::Arc::new(cause.clone()));
                submit
            });
            Publication {
                key: event.to_string().into(),
                submits: submits.collect(),
                refused: Vec::new(),
            }
        });
        let reply = self.reply();
        let events = events.into_iter().take(1 + usize::from(functions % 2)).collect();
        self.handle(Event::Publish(Box::new(Publish { reply, events })));
    }

    fn install(&mut self, function: u8, n: u8) {
        self.serves(function, n);
        let installed = self.version(function, n);
        self.handle(Event::Installed(installed));
    }

    fn serves(&mut self, function: u8, n: u8) {
        let function = nth(function);
        self.refused.remove(&function);
        self.installed.insert(function.clone(), (Version([n; 32]), variant(n)));
        self.unsettled.insert(function);
    }

    fn version(&mut self, function: u8, n: u8) -> Box<InstalledVersion> {
        let version = Version([n; 32]);
        Box::new(InstalledVersion {
            function: nth(function),
            id: FunctionId(n.into()),
            version,
            load_key: version,
            load_id: self.id(),
            rules: variant(n).into(),
        })
    }

    fn some_processes(&self, which: impl Fn(&Process) -> bool) -> Vec<WorkerId> {
        let chosen = self.processes.iter().filter(|(_, process)| which(process));
        chosen.map(|(worker, _)| *worker).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.unix_ms = EPOCH_MS + u64::try_from(self.now.mono.as_millis()).unwrap();
        self.handle(Event::Tick);
    }

    fn id(&mut self) -> InvocationId {
        self.ids += 1;
        id(self.ids)
    }

    /// Returns the payload of the invocation with the last id: of one of two customers, or of none.
    fn payload(&self) -> Payload {
        let customer = self.ids % 3;
        let data = (customer < 2).then(|| format!(r#"{{"customer": {customer}}}"#).into_bytes().into());
        Payload {
            data,
            ..Payload::default()
        }
    }

    fn reply(&mut self) -> ReplyTo {
        self.replies += 1;
        self.owed.insert(ReplyTo(self.replies));
        ReplyTo(self.replies)
    }

    fn handle(&mut self, event: Event) {
        let mut out = Vec::new();
        self.s.handle(self.now, event, &mut out);
        assert!(
            self.s.next_deadline().is_none_or(|at| at > self.now.mono),
            "a deadline in the past"
        );
        for action in out {
            // Rules are long and always the same, so they are not logged.
            match &action {
                Action::Spawn(order) => {
                    writeln!(self.log, "{:?} {} {:?}", self.now.mono, order.worker, order.attempt).unwrap();
                }
                Action::Call(order) => {
                    writeln!(self.log, "{:?} {} {:?}", self.now.mono, order.worker, order.attempt).unwrap();
                }
                action => writeln!(self.log, "{:?} {action:?}", self.now.mono).unwrap(),
            }
            self.perform(action);
        }
        assert_eq!(self.s.workers(), self.processes.len());
        self.judge_due();
        self.judge_counts();
        for function in std::mem::take(&mut self.requested) {
            let id = self.id();
            self.handle(Event::Submit(Box::new(Submit {
                trigger: Trigger::Load,
                reply: None,
                wait: false,
                ..submit_of(function, id)
            })));
        }
    }
}

fn submit_of(function: FunctionName, id: InvocationId) -> Submit {
    Submit {
        wait: true,
        ..Submit::new(id, function, Trigger::Manual)
    }
}

fn answered(worker: WorkerId, call: u64, reason: Reason) -> Event {
    Event::Answered(Box::new(Answered {
        worker,
        call,
        reason,
        message: "said so".to_owned(),
        result: Some(text("answer")),
    }))
}

fn nth(function: u8) -> FunctionName {
    name(&format!("f{}", function % FUNCTIONS))
}

fn choose(which: u8, of: usize) -> Option<usize> {
    usize::from(which).checked_rem(of)
}
