//! Everything at once, at random and under load: people who edit, rename, reload and cancel; callers that break off; a
//! clock that steps; shortage of disk, inodes and descriptors; processes that are stopped and killed. Then the
//! invariants are checked.
//!
//! A seed chooses what is done, not how the machine orders it: `make test-storm SEED=N` makes the same choices again.
//! `STORM=edits,kills` leaves all other kinds out. `make test` takes all of them, with one seed.
//!
//! Files:
//! - `actions`: what can happen, and choosing it
//! - `after`: what must be gone afterwards
//! - `callers`: functions and their callers
//! - `ground`: the disk and the clock of an fnd
//! - `perform`: does what was chosen

mod actions;
mod after;
mod callers;
mod ground;
mod perform;

use crate::crash::check::Check;
use crate::crash::functions::{self as common, FUNCTIONS, Journal};
use crate::crash::load::Load;
use crate::crash::rest::Rest;
use crate::crash::{follows, slots};
use actions::{Action, KINDS, Kind};
use after::Figures;
use callers::Crowd;
use fastrand::Rng;
use fnd_tests::{Fnd, Setup, require};
use ground::Ground;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Duration, unless `FND_STORM_SECONDS` is set; with warming up, without the comparison at the end.
const SECONDS: u64 = 60;
/// The seed, unless `FND_STORM_SEED` has another one or `random`.
const SEED: u64 = 1;
/// Duration of load without actions, until the memory is stable.
const WARM_UP: Duration = Duration::from_secs(4);
/// How long callers can send requests without pauses until the history has 64 MiB, above which a full disk removes the
/// oldest records, as it should. In a longer storm callers pause more.
const HISTORY_LASTS: u64 = 60;
/// The functions in addition to those under load of the crash tests: one that is moved around, an HTTP server, a
/// service, one that runs by schedule, and those that are called because another one has ended.
const OTHERS: [&str; 7] = ["moves", "web", "keeper", slots::NAME, "followed", "turns", "paged"];

const DAY_MS: i64 = 86_400_000;

/// One fnd in a storm.
struct Storm {
    fnd: Fnd,
    ground: Ground,
    /// Directory of the journals of functions.
    gate: PathBuf,
    /// Counts written files, so that no two versions are equal.
    version: u32,
    /// Whether a spawner was killed, which interrupts running attempts.
    spawner_killed: bool,
    /// Whether disk space or descriptors had run out for a while.
    shortage: bool,
    /// The steps of the clock that were furthest from the machine's time.
    clock_min_ms: i64,
    clock_max_ms: i64,
    /// How to make the same choices again.
    again: String,
}

#[test]
fn what_must_hold_holds_in_a_storm() {
    require!(root, cgroup);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("FND_STORM_SECONDS").unwrap_or(SECONDS);
    let random = std::env::var("FND_STORM_SEED").is_ok_and(|seed| seed == "random");
    let seed = if random {
        u64::from(fastrand::u32(..))
    } else {
        number("FND_STORM_SEED").unwrap_or(SEED)
    };
    let kinds = chosen();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    say(&format!("{seconds} s, seed {seed}, {}", names.join(",")));
    let again = format!(
        "seed {seed}, replayed with SEED={seed} SECONDS={seconds} STORM={}",
        names.join(",")
    );

    let mut rng = Rng::with_seed(seed);
    let mut storm = Storm::begin(again, seconds);
    let empty = Figures::of(&storm.fnd);
    storm.drop_all();
    let pauses = seconds.div_ceil(HISTORY_LASTS);
    let load = Load::begin(&storm.fnd.client(), &mut rng.fork(), &seed.to_string(), pauses);
    let crowd = Crowd::begin(&storm.fnd.client(), &mut rng.fork(), pauses);
    let begun = fnd_tests::now();
    while begun.elapsed() < WARM_UP {
        fnd_tests::wait::pause();
    }
    // Memory that is used for the first time in the storm also stays: caches of the ledger, threads.
    for action in [Action::Backup, Action::Reload(1), Action::Cancel(20)] {
        storm.perform(&action);
    }
    let warm = Figures::of(&storm.fnd);
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    while begun.elapsed() < Duration::from_secs(seconds) {
        let kind = kinds[rng.usize(..kinds.len())];
        let action = Action::choose(kind, &mut rng);
        if std::env::var_os("FND_STORM_SEED").is_some() {
            say(&format!("{} s: {action:?}", begun.elapsed().as_secs()));
        }
        storm.perform(&action);
        *done.entry(kind.name()).or_default() += 1;
    }
    storm.calm();
    let replies = load.end();
    let crowd = crowd.end();
    slots::pause(&storm.fnd);
    follows::pause(&storm.fnd);
    say(&format!("{done:?}"));

    let rest = Rest {
        fnd: &storm.fnd,
        others: &OTHERS,
        service: Some("keeper"),
        again: &storm.again,
    };
    rest.wait();
    let calm = Figures::of(&storm.fnd);
    let journal = Journal::read(&storm.gate, FUNCTIONS.iter().map(|function| function.name));
    let check = Check {
        fnd: &storm.fnd,
        replies: &replies,
        journal: &journal,
        spawner_killed: storm.spawner_killed,
        shortage: storm.shortage,
    };
    let (invocations, mut findings) = check.run();
    // After steps of more than a day a schedule begins anew, at a moment that only fnd knows: then slots come again or
    // not at all, and the history cannot say which. The crash tests make smaller steps.
    if storm.clock_max_ms.saturating_sub(storm.clock_min_ms) < DAY_MS {
        slots::check(&storm.fnd, !storm.shortage, &mut findings);
    }
    follows::check(&storm.fnd, &storm.gate, !storm.shortage, &mut findings);
    let others = Journal::read(&storm.gate, ["moves", "web"].into_iter());
    crowd.check(&storm.fnd, &others, storm.spawner_killed, &mut findings);
    calm.compare_memory(&warm, &mut findings);
    storm.remove_all();
    after::check_leftovers(&mut storm, &empty, &mut findings);
    say(&format!(
        "{invocations} invocations of {} requests: {}",
        replies.requests,
        findings.counts()
    ));
    assert!(findings.none(), "{}: {}{findings}", storm.again, findings.counts());
    storm.fnd.finish();
}

impl Storm {
    fn begin(again: String, seconds: u64) -> Self {
        let ground = Ground::begin();
        let setup = Setup {
            environment: vec![("FND_TEST_CLOCK".to_owned(), ground.clock().display().to_string())],
            ..Setup::default().detached()
        };
        let mut fnd = Fnd::prepare(&setup);
        let ground = ground.with_state(&fnd.path("state"), seconds);
        let gate = fnd.shared_directory("gate");
        fnd.launch();
        Self {
            fnd,
            ground,
            gate,
            version: 0,
            spawner_killed: false,
            shortage: false,
            clock_min_ms: 0,
            clock_max_ms: 0,
            again,
        }
    }

    /// Installs all functions.
    fn drop_all(&mut self) {
        let names = FUNCTIONS.iter().map(|function| function.name).chain(OTHERS);
        for name in names.clone() {
            self.drop(name);
        }
        for name in names {
            self.fnd.wait_ready(name);
        }
    }

    /// Installs a function in a new version.
    fn drop(&mut self, name: &str) {
        self.version += 1;
        let (file, code) = common::files()
            .into_iter()
            .chain(callers::files())
            .find(|(file, _)| file.split('.').next() == Some(name))
            .expect("a function of this test");
        let code = code.replace("GATE", &self.gate.display().to_string());
        self.fnd
            .drop_file(file, &format!("{code}\n# version {}\n", self.version));
    }

    fn remove_all(&self) {
        for (file, _) in common::files().into_iter().chain(callers::files()) {
            self.fnd.remove(file);
        }
        for name in FUNCTIONS.iter().map(|function| function.name).chain(OTHERS) {
            self.fnd.wait_gone(name);
        }
    }
}

/// Returns the kinds that `STORM` names, or all.
fn chosen() -> Vec<Kind> {
    let names = std::env::var("STORM").unwrap_or_default();
    if names.is_empty() || names == "all" {
        return KINDS.to_vec();
    }
    let kind = |name: &str| {
        let found = KINDS.iter().find(|kind| kind.name() == name);
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        *found.unwrap_or_else(|| panic!("STORM names `{name}`; there are all,{}", known.join(",")))
    };
    names.split(',').map(|name| kind(name.trim())).collect()
}

/// Prints progress.
#[expect(clippy::print_stdout, reason = "a long storm takes a while")]
fn say(what: &str) {
    println!("storm: {what}");
}
