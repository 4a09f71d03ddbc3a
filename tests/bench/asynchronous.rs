//! Asynchronous work: how fast it is accepted on disk by 64 callers, and how fast a queue drains, beside the same function
//! called and waited for.

use crate::http::{Caller, Server};
use crate::load::{run, run_at};
use crate::table::Table;
use fnd_tests::{Fnd, now, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CALLERS: usize = 64;

/// A queue that takes longer to drain is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// Does as little as a handler can, unless it is held up: so a queue can be filled before it drains.
const HANDLER: &str = "# /// fnd
# [queue]
# max = 1000000
# ///
import os, time
HELD = os.path.join(os.environ['HOME'], 'held')
def handler(event, context):
    while os.path.exists(HELD):
        time.sleep(0.01)
    return 'hello'
";

/// Measures both, with a queue of so many.
pub(crate) fn measure(rounds: usize, queued: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(&crate::as_shipped().file("queued.py", HANDLER));
    let _run = crate::run_directory_in_memory(&fnd);
    fnd.launch();
    fnd.wait_ready("queued");
    let caller = |verb: &str| {
        let server = Server::Unix(fnd.socket());
        Caller::open(&server, &format!("/v1/functions/queued/{verb}"))
    };
    let waited_for = run(rounds * 10, || caller("invoke"), Caller::call);
    table.load("fnd: python handler, waited for, 8 at once", &waited_for, &waited_for);

    let held = hold(&fnd.path("state/home/queued"));
    let before = fnd.wait_ready("queued").runs;
    let accepted = run_at((CALLERS, 0), queued, || caller("invocations"), Caller::call);
    table.load(
        &format!("fnd: accepted on disk, {CALLERS} at once"),
        &accepted,
        &waited_for,
    );
    let begun = now();
    fs::remove_file(held).expect("the functions are let go");
    let count = accepted.times.count();
    let all = before + u64::try_from(count).unwrap_or(u64::MAX);
    wait_until("the queue to drain", PATIENCE, || {
        (fnd.wait_ready("queued").runs >= all).then_some(())
    });
    let rate = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / begun.elapsed().as_secs_f64();
    table.value(
        &format!("fnd: {count} queued, drained"),
        format!("{rate:.0}/s {:.2}x", rate / waited_for.rates.median()),
    );
    fnd.stop();
}

/// Holds the function up until the file is removed.
fn hold(home: &Path) -> PathBuf {
    let held = home.join("held");
    fs::write(&held, "").expect("the function has a home");
    held
}
