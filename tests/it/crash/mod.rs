//! Kills fnd many times, at named system calls and at random moments, and also its spawner or both, while callers send
//! requests. At the end the history is compared with the answers that callers got and with the journals of functions.
//!
//! A seed chooses the requests and the places where fnd is killed, not the order in which the machine runs them: with
//! `FND_SEED=N` the same kills come again, and a failure comes again as often as it did.
//!
//! Files:
//! - `answered`: both die right after an answer
//! - `check`: compares the history with the journals
//! - `drops`: a function that runs on files
//! - `findings`: the failures, in words
//! - `follows`: functions that hooks and alerts call
//! - `functions`: the functions, and the journal they write
//! - `load`: the callers, and what they remember
//! - `points`: where fnd is killed
//! - `rest`: waits until everything has ended
//! - `slots`: a function that runs by schedule

mod answered;
pub(crate) mod check;
pub(crate) mod drops;
pub(crate) mod findings;
pub(crate) mod follows;
pub(crate) mod functions;
pub(crate) mod load;
mod points;
pub(crate) mod rest;
pub(crate) mod slots;

use check::Check;
use drops::Drops;
use fastrand::Rng;
use fnd_tests::mount::Mount;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require};
use functions::{FUNCTIONS, Journal};
use load::Load;
use nix::sys::signal::Signal;
use points::{Kill, POINTS};
use rest::Rest;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often fnd is killed unless `FND_KILLS` says.
const KILLS: u32 = 80;
/// Number of kills after which the history is compared and another fnd starts with a seed of its own.
const KILLS_OF_ONE: u32 = 40;
/// How long a named point is waited for. It may never come; then fnd is killed at that moment.
const POINT_COMES: Duration = Duration::from_millis(1500);

/// The functions in addition to those under load.
const OTHERS: [&str; 5] = [slots::NAME, drops::NAME, "followed", "turns", "paged"];
/// Steps of the clock: to the past, and to the future by less than slots are caught up. All are within a day, so that no
/// mark of a schedule counts as wrong.
const STEPS_MS: [i64; 6] = [0, 2_500, 9_000, -4_000, 900_000, -3_600_000];

/// The kills and the findings.
#[derive(Default)]
struct Sum {
    kills: BTreeMap<&'static str, u32>,
    invocations: usize,
}

#[test]
fn many_kills_at_named_points_and_any_moment() {
    require!(root, cgroup, strace);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FND_KILLS").map_or(KILLS, |kills| u32::try_from(kills).unwrap_or(u32::MAX));
    // 32 bits are enough, and a seed of that size is short enough to type.
    let first = number("FND_SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    say(&format!("{kills} kills, seed {first}"));
    let begun = fnd_tests::now();
    let mut sum = Sum::default();
    let mut done = 0;
    let mut seed = first;
    while done < kills {
        let count = KILLS_OF_ONE.min(kills - done);
        one_fnd(seed, count, &mut sum);
        done += count;
        say(&format!(
            "{done} of {kills} kills in {} s, {} invocations, lost 0, doubled 0",
            begun.elapsed().as_secs(),
            sum.invocations,
        ));
        seed += 1;
    }
    say(&format!("where it was killed: {:?}", sum.kills));
    let reached = POINTS.iter().filter(|point| sum.kills.contains_key(point.name)).count();
    assert!(
        kills < KILLS || reached > POINTS.len() / 2,
        "{reached} of {} points were reached: {:?}",
        POINTS.len(),
        sum.kills
    );
    say(&format!(
        "{kills} kills, {} invocations, lost 0, doubled 0",
        sum.invocations
    ));
}

/// Kills one fnd this often, waits until everything has ended, and compares. With an odd seed the spawner is killed,
/// too. With an even one scripts survive every kill, and none may be interrupted. Of each four seeds, two have the run
/// directory in memory.
fn one_fnd(seed: u64, kills: u32, sum: &mut Sum) {
    let mut rng = Rng::with_seed(seed);
    let spawner_killed = seed % 2 == 1;
    let clock = tempfile::tempdir().expect("a temporary directory");
    let clock = clock.path().join("clock");
    let setup = Setup {
        environment: vec![("FND_TEST_CLOCK".to_owned(), clock.display().to_string())],
        ..Setup::default().detached()
    };
    let mut fnd = Fnd::prepare(&setup);
    // As on a machine, where `/run` is in memory: the table of attempts that have begun is mapped then.
    let _run = (seed / 2)
        .is_multiple_of(2)
        .then(|| Mount::over(&fnd.path("run"), "64m"));
    let gate = fnd.shared_directory("gate");
    let others = follows::files().into_iter().chain([drops::file()]);
    for (name, code) in functions::files().into_iter().chain(others) {
        fnd.drop_file(name, &code.replace("GATE", &gate.display().to_string()));
    }
    fnd.drop_file(slots::FILE.0, slots::FILE.1);
    fnd.launch();
    for function in &FUNCTIONS {
        fnd.wait_ready(function.name);
    }
    for name in OTHERS {
        fnd.wait_ready(name);
    }
    fnd.leave(Signal::SIGTERM);
    let load = Load::begin(&fnd.client(), &mut rng, &seed.to_string(), 1);
    let dropping = Drops::begin(&gate, rng.fork());
    for n in 0..kills {
        let kill = Kill::choose(&mut rng, spawner_killed);
        if rng.u32(..5) == 0 {
            let step = STEPS_MS[rng.usize(..STEPS_MS.len())];
            std::fs::write(&clock, step.to_string()).expect("a file is written");
        }
        let begun = fnd_tests::now();
        let name = replace(&mut fnd, kill);
        if std::env::var_os("FND_SEED").is_some() {
            say(&format!("{n}: {kill}: {name} after {} ms", begun.elapsed().as_millis()));
        }
        *sum.kills.entry(name).or_default() += 1;
        for function in &FUNCTIONS {
            // Panics if the status file is torn or missing at any moment.
            assert!(
                fnd.status_file(function.name).is_some(),
                "seed {seed}, kill {n} ({kill})"
            );
        }
    }
    fnd.start_behind(Vec::new());
    fnd.launch();
    let replies = load.end();
    slots::pause(&fnd);
    follows::pause(&fnd);
    let files = dropping.end(&fnd);
    let again = format!("seed {seed}, replayed with FND_SEED={seed} FND_KILLS={kills}");
    let rest = Rest {
        fnd: &fnd,
        others: &OTHERS,
        service: None,
        again: &again,
    };
    rest.wait();
    let journal = Journal::read(&gate, FUNCTIONS.iter().map(|function| function.name));
    let (invocations, mut findings) = Check {
        fnd: &fnd,
        replies: &replies,
        journal: &journal,
        spawner_killed,
        shortage: false,
    }
    .run();
    slots::check(&fnd, true, &mut findings);
    follows::check(&fnd, &gate, true, &mut findings);
    drops::check(&fnd, &gate, files, true, &mut findings);
    sum.invocations += invocations;
    assert!(findings.none(), "{again}: {}{findings}", findings.counts());
    fnd.finish();
}

/// Starts an fnd and kills it. Returns the name of how.
fn replace(fnd: &mut Fnd, kill: Kill) -> &'static str {
    fnd.start_behind(kill.words(fnd));
    let begun = fnd_tests::now();
    let pass = |since: std::time::Instant, time: Duration| {
        while since.elapsed() < time {
            fnd_tests::wait::pause_briefly();
        }
    };
    fnd.begin_launch();
    if let Kill::Starting(after) = kill {
        pass(begun, after);
        fnd.kill();
        return kill.name();
    }
    if fnd.wait_launched(PATIENCE).is_some() {
        return kill.name();
    }
    let answered = fnd_tests::now();
    match kill {
        Kill::Point(..) => {
            while answered.elapsed() < POINT_COMES && fnd.ended().is_none() {
                fnd_tests::wait::pause_briefly();
            }
            if fnd.kill() {
                "a point that did not come"
            } else {
                kill.name()
            }
        }
        Kill::Moment(after) => {
            pass(answered, after);
            fnd.kill();
            kill.name()
        }
        Kill::Planned(after, None) => {
            pass(answered, after);
            fnd.leave(Signal::SIGTERM);
            kill.name()
        }
        Kill::Planned(after, Some(cut)) => {
            pass(answered, after);
            fnd.signal(Signal::SIGTERM);
            let asked = fnd_tests::now();
            pass(asked, cut);
            fnd.kill();
            kill.name()
        }
        Kill::Spawner(after) => {
            pass(answered, after);
            fnd.kill_spawner();
            kill.name()
        }
        Kill::Both(after) => {
            pass(answered, after);
            // Neither process may see the other one end.
            fnd.signal(Signal::SIGSTOP);
            fnd.signal_spawner(Signal::SIGKILL);
            fnd.kill();
            fnd.kill_spawner();
            kill.name()
        }
        Kill::Starting(_) => unreachable!("done above"),
    }
}

/// Prints progress.
#[expect(clippy::print_stdout, reason = "thousands of kills take a while")]
fn say(what: &str) {
    println!("crash: {what}");
}
