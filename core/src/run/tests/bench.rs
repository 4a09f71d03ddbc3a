//! A test bench for the supervisor: events go in, actions come out as short words.

use crate::backoff::{Backoff, Jitter};
use crate::records::outcome::{Class, Reason, Trigger};
use crate::records::{Accepted, Payload, RunResult, Usage};
use crate::run::{
    Action, Answer, Event, Exited, FunctionKind, InstalledVersion, NodeBudget, Notice, Now, Overlap, QueueRules,
    Rejection, ReplyTo, Restored, Retry, Rules, Submit, Supervisor,
};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;
/// Wall-clock time at the start of every bench.
pub(super) const EPOCH_MS: u64 = 1_800_000_000_000;

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Now {
    /// Returns the time that is `pause` later.
    pub(super) fn after(self, pause: Duration) -> Self {
        Self {
            mono: self.mono + pause,
            unix_ms: self.unix_ms + u64::try_from(pause.as_millis()).unwrap(),
        }
    }
}

pub(super) fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

/// Returns the event that the directories are quiet and no function is held.
pub(super) fn quiet() -> Event {
    Event::Quiet(BTreeSet::new())
}

pub(super) fn id(n: u128) -> InvocationId {
    InvocationId(n)
}

/// Returns what the ledger has of the acceptance of durable work of `f`.
pub(super) fn accepted(n: u128) -> Accepted {
    Accepted::new(id(n), name("f"), Trigger::Manual, EPOCH_MS)
}

/// The default rules of a manifest, without jitter.
pub(super) fn rules() -> Rules {
    Rules {
        enabled: true,
        run_on_load: false,
        default_payload: Payload::default(),
        input: None,
        timeout: Some(secs(180)),
        grace: secs(5),
        deadline: None,
        memory: 256 * MIB,
        memory_text: "256 MiB".to_owned(),
        cpu_milli: None,
        max_running: 1,
        kind: FunctionKind::Script,
        retry: Retry {
            retries: 0,
            backoff: Backoff {
                interval: secs(1),
                factor: 2.0,
                max_interval: secs(300),
                jitter: Jitter::None,
            },
            on: vec![
                Class::Error,
                Class::Transient,
                Class::Timeout,
                Class::Oom,
                Class::Signal,
                Class::Spawn,
            ],
            not_on_exit: Vec::new(),
        },
        poll: None,
        queue: QueueRules {
            max: 100,
            overlap: Overlap::Queue,
            rate: None,
            group: None,
            key: None,
        },
        result_max: 6 * MIB,
        pids: 64,
        output_max: MIB,
        has_hooks: false,
        unchecked: false,
        runtime: "bash".to_owned(),
    }
}

pub(super) fn exit(worker: u64, status: ExitStatus) -> Exited {
    Exited {
        worker: WorkerId(worker),
        late: None,
        status,
        usage: Usage::default(),
        oom_kills: 0,
        oom_shared: false,
        pids_refused: 0,
        stragglers: false,
        result: None,
        result_too_large: None,
        bad_answer: None,
        last_error_line: None,
    }
}

pub(super) fn text(bytes: &str) -> RunResult {
    RunResult {
        json: false,
        data: bytes.to_owned().into(),
        response: None,
        kept: None,
    }
}

pub(super) fn submit(function: &str, n: u128) -> Submit {
    Submit {
        // The reply has the invocation's number, so that tests recognize it.
        reply: Some(ReplyTo(u64::try_from(n).unwrap())),
        wait: true,
        ..Submit::new(id(n), name(function), Trigger::Manual)
    }
}

pub(super) fn installed(function: &str, version: u8, rules: Rules) -> Event {
    Event::Installed(Box::new(InstalledVersion {
        function: name(function),
        id: FunctionId(7),
        version: Version([version; 32]),
        load_key: Version([version; 32]),
        load_id: id(1000 + u128::from(version)),
        rules: rules.into(),
    }))
}

pub(super) struct Bench {
    pub(super) s: Supervisor,
    pub(super) now: Now,
    pub(super) last: Vec<Action>,
    /// The number of the shares that were to be stored last.
    pub(super) published: Option<u64>,
    /// Whether claims are stored at once; otherwise the test sends the event.
    pub(super) claims: bool,
}

impl Bench {
    /// A node of 1 GiB and ten workers.
    pub(super) fn new() -> Self {
        let memory = 1024 * MIB;
        let budget = NodeBudget {
            memory,
            cpu_milli: None,
            workers: 10,
        };
        let now = Now {
            mono: secs(100),
            unix_ms: EPOCH_MS,
        };
        let s = Supervisor::new(1, budget, WorkerId(1));
        Self {
            s,
            now,
            last: vec![],
            published: None,
            claims: true,
        }
    }

    /// A bench with one function `f`.
    pub(super) fn with(rules: Rules) -> Self {
        let mut bench = Self::new();
        bench.event(installed("f", 1, rules));
        bench
    }

    /// Handles an event. Its actions are kept until the next event.
    pub(super) fn event(&mut self, event: Event) -> String {
        self.last.clear();
        self.s.handle(self.now, event, &mut self.last);
        let mut seen = 0;
        while self.claims {
            let new = self.last[seen..].iter().filter_map(claim);
            let claimed: Vec<InvocationId> = new.collect();
            if claimed.is_empty() {
                break;
            }
            seen = self.last.len();
            self.s.handle(self.now, Event::Claimed(claimed), &mut self.last);
        }
        assert!(self.s.next_deadline().is_none_or(|at| at > self.now.mono));
        let number = |action: &Action| match action {
            Action::Publish(shares) => Some(shares.number),
            _ => None,
        };
        self.published = self.last.iter().find_map(number).or(self.published);
        self.actions()
    }

    /// The actions of the last event, without notices of starts and without status files.
    pub(super) fn actions(&self) -> String {
        let shown = self
            .last
            .iter()
            .filter(|action| !self.claims || claim(action).is_none());
        let words: Vec<String> = shown.filter_map(word).collect();
        words.join("; ")
    }

    /// Installs a content of `f`; then the directories are quiet. Returns the actions of both.
    pub(super) fn dropped(&mut self, version: u8, rules: Rules) -> String {
        let words = [self.event(installed("f", version, rules)), self.event(quiet())];
        let words: Vec<_> = words.into_iter().filter(|words| !words.is_empty()).collect();
        words.join("; ")
    }

    /// Handles a request.
    pub(super) fn request(&mut self, submit: Submit) -> String {
        self.event(Event::Submit(Box::new(submit)))
    }

    /// Handles a request of a caller who does not wait for its end.
    pub(super) fn enqueue(&mut self, submit: Submit) -> String {
        self.request(Submit { wait: false, ..submit })
    }

    pub(super) fn submit(&mut self, n: u128) -> String {
        self.request(submit("f", n))
    }

    pub(super) fn submit_of(&mut self, function: &str, n: u128) -> String {
        self.request(submit(function, n))
    }

    /// Submits without waiting and stores the invocation.
    pub(super) fn submit_stored(&mut self, n: u128) -> String {
        self.enqueue(submit("f", n));
        self.event(Event::Stored(id(n)))
    }

    pub(super) fn spawned(&mut self, worker: u64) -> String {
        self.event(Event::Spawned(WorkerId(worker)))
    }

    pub(super) fn code(&mut self, worker: u64, code: u8) -> String {
        self.exited(exit(worker, ExitStatus::Code(code)))
    }

    pub(super) fn exited(&mut self, exited: Exited) -> String {
        self.event(Event::Exited(Box::new(exited)))
    }

    pub(super) fn cancel(&mut self, n: u128) -> String {
        let reply = ReplyTo(99);
        self.event(Event::Cancel { id: id(n), reply })
    }

    /// Lets time pass, with a tick at each deadline on the way and one at the end.
    pub(super) fn wait(&mut self, time: Duration) -> String {
        let end = self.now.mono + time;
        let mut all = Vec::new();
        loop {
            let at = self.s.next_deadline().filter(|at| *at <= end);
            let to = at.unwrap_or(end);
            self.now.unix_ms += u64::try_from((to - self.now.mono).as_millis()).unwrap();
            self.now.mono = to;
            self.event(Event::Tick);
            all.append(&mut self.last);
            if at.is_none() {
                break;
            }
        }
        self.last = all;
        self.actions()
    }

    pub(super) fn restore(&mut self, restored: Restored) -> String {
        self.event(Event::Restored(Box::new(restored)))
    }
}

fn claim(action: &Action) -> Option<InvocationId> {
    match action {
        Action::Claim(record) => Some(record.id),
        _ => None,
    }
}

fn word(action: &Action) -> Option<String> {
    let record = |record: &crate::records::InvocationRecord| {
        let reason = record.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        let out = record.exhausted.map(|out| format!(" {out:?}")).unwrap_or_default();
        format!("{}{reason}{out}", record.state.as_str())
    };
    Some(match action {
        Action::Store(accepted) if accepted.durable => format!("store {}", accepted.id.0),
        Action::Store(accepted) => format!("note {}", accepted.id.0),
        Action::Publish(shares) => {
            let ids = |event: &crate::run::EventShares| {
                let accepted = event.accepted.iter().map(|accepted| accepted.id.0.to_string());
                let skipped = event.skipped.iter().map(|accepted| {
                    let Some((Reason::Skipped(skip), _)) = &accepted.skipped else {
                        panic!("it is not skipped: {:?}", accepted.skipped);
                    };
                    format!("{} {skip:?}", accepted.id.0)
                });
                accepted.chain(skipped).collect::<Vec<_>>().join(",")
            };
            let events: Vec<_> = shares.events.iter().map(ids).collect();
            format!("publish {}", events.join(" | "))
        }
        Action::Spawn(order) => match &order.attempt {
            Some(run) => format!("spawn {} a{} {}", order.worker, run.attempt.0, run.invocation.0),
            None => format!("spawn {}", order.worker),
        },
        Action::Claim(stands) => format!("claim {} a{}", stands.id.0, stands.attempts),
        Action::Run(function) => format!("run {function}"),
        Action::Call(order) => {
            let run = &order.attempt;
            format!(
                "call {} #{} a{} {}",
                order.worker, order.call, run.attempt.0, run.invocation.0
            )
        }
        Action::CancelCall { worker, call } => format!("cancel {worker} #{call}"),
        Action::DropCall { worker, call } => format!("drop {worker} #{call}"),
        Action::Stop(worker) => format!("stop {worker}"),
        Action::Term(worker) => format!("term {worker}"),
        Action::Kill(worker) => format!("kill {worker}"),
        Action::Forget(worker, _) => format!("forget {worker}"),
        Action::Record(attempt, stands) => format!("record {}: {}", attempt.reason, record(stands)),
        Action::Update(stands) if stands.state.is_final() => format!("update {} {}", stands.id.0, record(stands)),
        Action::PutBack(attempt, stands) => format!("put back a{} {}", attempt.0, record(stands)),
        Action::Withdraw(id) => format!("withdraw {}", id.0),
        Action::Supersede(stands, node) => format!("supersede {} {} by {node}", stands.id.0, record(stands)),
        Action::Follow(id, _) => format!("follow {}", id.0),
        Action::Update(_)
        | Action::Dropped(_)
        | Action::KeepReason(_)
        | Action::Status(_)
        | Action::Known(_)
        | Action::Gone(_)
        | Action::Serves(..)
        | Action::Refused(..)
        | Action::CanaryServes(..)
        | Action::TrialFailed { .. }
        | Action::Release { .. } => return None,
        Action::Notice(Notice::AttemptStarted { .. } | Notice::Rejected { .. } | Notice::StartsChanged) => return None,
        Action::Notice(Notice::StateChanged { from, to, .. }) => format!("{from:?} to {to:?}"),
        Action::Notice(Notice::Unkillable { worker, .. }) => format!("unkillable {worker}"),
        Action::Notice(Notice::Defect(text)) => format!("defect {text}"),
        Action::CanaryFailed(_) => "canary failed".to_owned(),
        Action::EnabledChanged(_) => "enabled changed".to_owned(),
        Action::MakeDurable { id, dead_letter } => {
            format!(
                "make {}{} durable",
                id.0,
                if *dead_letter { "" } else { " (no dead letter)" }
            )
        }
        Action::StoreCaller(accepted) => format!("store caller of {}", accepted.id.0),
        Action::Drained => "drained".to_owned(),
        Action::Reply(to, answer) => {
            let what = match answer {
                Answer::Queued(_) => "queued".to_owned(),
                Answer::Finished(stands) => record(stands),
                Answer::TimedOut { message, .. } => message.clone(),
                Answer::Rejected(Rejection::Skipped { skip, .. }) => format!("rejected {skip:?}"),
                Answer::Rejected(Rejection::Quota { why }) => format!("full: {why}"),
                Answer::Rejected(Rejection::Invalid { error }) => format!("invalid: {error}"),
                Answer::Rejected(Rejection::Service) => "a service".to_owned(),
                Answer::Rejected(Rejection::NoSuchFunction) => "no such function".to_owned(),
                Answer::Rejected(Rejection::Chain(refusal)) => format!("{refusal:?}"),
                Answer::Rejected(Rejection::Input(mistakes)) => format!("{} wrong in the input", mistakes.len()),
                Answer::Rejected(Rejection::KeyReused) => "key reused".to_owned(),
                Answer::Rejected(Rejection::Unavailable { .. }) => "unavailable".to_owned(),
                Answer::Published(events) => {
                    let ids = |delivered: &crate::run::Delivered| {
                        let ids = delivered.invocations.iter().map(|taken| taken.id.0.to_string());
                        let again = if delivered.duplicate { "again " } else { "" };
                        format!("{again}{}", ids.collect::<Vec<_>>().join(","))
                    };
                    let events: Vec<_> = events.iter().map(ids).collect();
                    format!("published {}", events.join(" | "))
                }
                Answer::NotPublished {
                    event,
                    function,
                    rejection,
                } => {
                    format!("not published: event {event}, {function} {:?}", rejection.skip())
                }
                Answer::Done => "done".to_owned(),
                Answer::NotFound => "not found".to_owned(),
                Answer::StoreFailed => "store failed".to_owned(),
            };
            format!("reply {}: {what}", to.0)
        }
    })
}
