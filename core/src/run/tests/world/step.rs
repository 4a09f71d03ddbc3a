//! The steps of a random run, and the rules of its functions.

use super::*;
use fnd_manifest::function::route::RequestPlace;

/// Everything that can happen to a supervisor. Numbers choose among the present items, modulo their count.
#[derive(Debug, Clone)]
pub(in crate::run::tests) enum Step {
    Submit {
        function: u8,
        wait: bool,
        timeout: bool,
        later: bool,
        expires: bool,
        keyed: bool,
        /// The running invocation that sends the request.
        caller: Option<u8>,
    },
    /// A request with one event or two for some functions (bits).
    Publish {
        functions: u8,
        event: u8,
        /// Below 2: the order key.
        order: u8,
    },
    Store {
        which: u8,
        fine: bool,
    },
    /// All claims that are being stored succeed, or all fail. The register has them.
    Claim {
        fine: bool,
    },
    /// The register of all nodes does not take one of the claims, or the lease is over. The ledger has stored it, or has not.
    PutOff {
        which: u8,
        fine: bool,
        ms: u16,
    },
    /// The lease on an invocation was not renewed in time.
    LoseLease {
        which: u8,
    },
    /// Another node has the work of an invocation, or may have it.
    OtherNode {
        which: u8,
        has_it: bool,
    },
    Spawn {
        which: u8,
        fine: bool,
    },
    /// The node could not start a worker.
    NoRoom {
        which: u8,
    },
    /// The spawner answers (`false`), or does not (`true`).
    Silence(bool),
    Exit {
        which: u8,
        code: u8,
        oom: bool,
        result: bool,
    },
    ExitAgain {
        worker: u8,
    },
    /// A handler's code was loaded, or could not be.
    Ready {
        which: u8,
        fine: bool,
    },
    /// A call is answered.
    Answer {
        which: u8,
        reason: Reason,
    },
    /// A worker closes the connection, sends an invalid message, or answers a call that it does not have.
    Break {
        which: u8,
        how: u8,
    },
    Cancel {
        which: u8,
    },
    Enable {
        function: u8,
        enabled: bool,
    },
    Full {
        function: u8,
        full: bool,
    },
    /// A version gets a share of the calls.
    Canary {
        function: u8,
        variant: u8,
        percent: u32,
    },
    CanaryOver {
        function: u8,
    },
    /// Something was mounted over a directory that the function watches.
    View {
        function: u8,
    },
    Install {
        function: u8,
        variant: u8,
    },
    /// The directories are quiet.
    Quiet,
    Refuse {
        function: u8,
    },
    Remove {
        function: u8,
    },
    Wait {
        ms: u16,
    },
    WaitForDeadline,
    LoseSpawner,
    /// A drain that is cancelled, after some workers have ended or at once.
    DrainAndBack {
        exits: u8,
    },
    /// fnd goes down, by a crash or a hand-over; its workers survive or not.
    Restart {
        in_order: bool,
        workers_survive: bool,
        /// Number of workers that end while no fnd is running.
        exits: u8,
    },
    Budget {
        small: bool,
    },
}

/// Returns rules that differ as much as possible.
pub(in crate::run::tests) fn variant(n: u8) -> Rules {
    let mut rules = rules();
    rules.memory = u64::from(10 + 15 * (n % 4)) * MIB;
    rules.cpu_milli = [None, Some(300), Some(700), Some(1500)][usize::from(n % 4)];
    rules.max_running = 1 + u32::from(n % 3);
    rules.timeout = (!n.is_multiple_of(5)).then(|| Duration::from_millis(u64::from(n) * 700));
    rules.grace = secs(u64::from(n % 3));
    rules.deadline = (n % 4 == 1).then(|| secs(20));
    rules.retry.retries = u32::from(n % 3).min(RETRIES);
    rules.retry.backoff.jitter = crate::backoff::Jitter::Equal;
    if n.is_multiple_of(2) {
        rules.retry.on.push(Class::Interrupted);
    }
    rules.poll = (n % 3 == 1).then_some(Poll {
        repeat: secs(2),
        until: secs(9),
    });
    rules.queue = QueueRules {
        max: u32::from(n % 4),
        overlap: [
            Overlap::Queue,
            Overlap::Skip,
            Overlap::Replace,
            Overlap::Reject,
            Overlap::Queue,
        ][usize::from(n % 5)],
        rate: (n % 7 == 3).then_some((3, secs(5))),
        group: [None, Some("db"), Some("licence"), Some("gone")][usize::from(n / 3 % 4)].map(str::to_owned),
        key: (!(n / 2).is_multiple_of(3))
            .then(|| (RequestPlace::parse("body.customer").unwrap(), 1 + u32::from(n / 5 % 2))),
    };
    rules.run_on_load = n % 3 == 2;
    rules.enabled = n % 11 != 10;
    let pool = Pool {
        min: u32::from(n % 5 == 3),
        most: rules.max_running + u32::from(n % 8 == 5),
        concurrency: 1 + u32::from(n % 3),
        idle: (n % 7 != 1).then(|| secs(4)),
        max_invocations: u32::from(n % 4) * 2,
        // Fresh workers with a maximum age and without an idle limit would be replaced for ever.
        max_age: (n % 5 == 4 && n % 8 != 5).then(|| secs(12)),
        spare: (n % 8 == 5).then_some(1),
        load_max: secs(3),
        alone: n % 6 == 1 && rules.max_running == 1,
    };
    let http = Http {
        listen: Listen::Free,
        ready: None,
    };
    rules.kind = match n {
        _ if n % 4 == 1 => FunctionKind::Http(pool, http),
        _ if n % 2 == 1 => FunctionKind::Handler(pool),
        _ if n % 10 == 4 => FunctionKind::Service(Service {
            replicas: rules.max_running,
            ready: (n % 20 == 4).then(|| "/".to_owned()),
            start_timeout: secs(2),
        }),
        _ => FunctionKind::Script,
    };
    if rules.kind.is_service() {
        (rules.timeout, rules.deadline) = (None, None);
        (rules.queue.group, rules.queue.key) = (None, None);
    }
    rules.run_on_load &= rules.kind == FunctionKind::Script;
    rules
}
