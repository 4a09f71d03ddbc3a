//! Ten thousand schedules (or some): what they cost at a start and while nothing is due, and a thousand functions that are due
//! in the same second.

use crate::memory;
use crate::table::Table;
use fnd_core::api::InvocationList;
use fnd_core::records::cause::Cause;
use fnd_tests::{Fnd, now, wait_until};
use std::fmt::Write as _;
use std::time::Duration;

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(300);
/// Functions that have the schedules.
const FUNCTIONS: usize = 100;
/// The time from a start until fnd is at rest: it gives memory back after ten seconds.
const AT_REST: Duration = Duration::from_secs(12);
/// How long wake-ups are counted then.
const IDLE: Duration = Duration::from_secs(20);

/// Measures everything, with so many schedules.
pub(crate) fn measure(schedules: usize, table: &mut Table) {
    for count in [0, schedules / FUNCTIONS] {
        future(count, table);
    }
    at_once(schedules / 10, table);
}

/// A hundred functions with so many schedules each, none of which is due.
fn future(each: usize, table: &mut Table) {
    let mut setup = crate::as_shipped();
    for function in 0..FUNCTIONS {
        let mut text = "# /// fnd\n# on_load = false\n".to_owned();
        for n in 0..each {
            // In a month that is far away.
            let month = (month_now() + 5) % 12 + 1;
            let _ = write!(text, "# [[schedule]]\n# cron = \"{} {} 1 {month} *\"\n", n % 60, n / 60);
        }
        text.push_str("# ///\n");
        setup = setup.file(&format!("f{function}.sh"), &text);
    }
    let mut fnd = Fnd::prepare(&setup);
    fnd.launch();
    wait_ready(&fnd, FUNCTIONS);
    fnd.stop();
    let start = now();
    fnd.launch();
    wait_ready(&fnd, FUNCTIONS);
    let what = format!("{FUNCTIONS} functions with {each} schedules each");
    table.value(
        &format!("{what}: restart to all ready"),
        format!("{} ms", start.elapsed().as_millis()),
    );
    memory::measure(&fnd, &what, table);
    wait(AT_REST);
    let before = wakeups(fnd.pid());
    // Nothing happens in this time; that is what is counted.
    wait(IDLE);
    let during = wakeups(fnd.pid()) - before;
    table.value(&format!("{what}: wake-ups in {} s", IDLE.as_secs()), during.to_string());
    fnd.stop();
}

fn wait(time: Duration) {
    let begun = now();
    while begun.elapsed() < time {
        fnd_tests::wait::pause();
    }
}

/// So many functions that are due in the same second.
fn at_once(functions: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(&crate::as_shipped());
    fnd.launch();
    let at = jiff::Timestamp::now().as_second() + 20 + i64::try_from(functions / 100).unwrap_or(0);
    let at = jiff::Timestamp::from_second(at)
        .expect("a time")
        .to_zoned(jiff::tz::TimeZone::UTC);
    let cron = at.strftime("%-S %-M %-H %-d %-m *");
    for n in 0..functions {
        fnd.drop_file(
            &format!("due{n}.sh"),
            &format!("# /// fnd\n# [[schedule]]\n# cron = \"{cron}\"\n# timezone = \"UTC\"\n# ///\n:\n"),
        );
    }
    wait_ready(&fnd, functions);
    let path = "/v1/invocations?trigger=schedule&state=succeeded&limit=1000";
    let list = wait_until("all of them to have run", PATIENCE, || {
        let list: InvocationList = fnd.client().get(path).json();
        (list.invocations.len() >= functions.min(1000)).then_some(list)
    });
    let slot = list
        .invocations
        .first()
        .and_then(|run| match fnd.invocation(run.id).cause {
            Some(Cause::Schedule(slots)) => slots.scheduled_at.parse::<jiff::Timestamp>().ok(),
            _ => None,
        });
    let after = |text: &str| {
        let instant: jiff::Timestamp = text.parse().expect("an instant");
        instant.duration_since(slot.expect("a slot")).as_millis()
    };
    let accepted = list.invocations.iter().map(|run| after(&run.accepted_at)).max();
    let ended = list
        .invocations
        .iter()
        .filter_map(|run| run.ended_at.as_deref())
        .map(after)
        .max();
    let text = |ms: Option<i128>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
    table.value(
        &format!("{functions} functions due at once: the last is admitted after"),
        text(accepted),
    );
    table.value(
        &format!("{functions} functions due at once: the last has ended after"),
        text(ended),
    );
    fnd.stop();
}

fn wait_ready(fnd: &Fnd, functions: usize) {
    wait_until("all functions to be ready", PATIENCE, || {
        let ready = fnd.status().functions_by_state.get("ready").copied();
        usize::try_from(ready.unwrap_or(0))
            .is_ok_and(|ready| ready == functions)
            .then_some(())
    });
}

/// Returns how often the threads of a process have waited for something and were woken (proc(5)).
fn wakeups(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let of = |status: String| {
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks
        .filter_map(|task| of(std::fs::read_to_string(task.path().join("status")).ok()?))
        .sum()
}

fn month_now() -> i8 {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).month() - 1
}
