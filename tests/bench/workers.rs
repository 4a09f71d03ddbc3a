//! A thousand running workers: what each costs fnd, and how long its API takes to answer beside them.

use crate::http::{Caller, Server};
use crate::load::in_turns;
use crate::memory::memory_of;
use crate::table::{Table, Times};
use fnd_tests::{Fnd, wait_until};
use std::fs;
use std::time::Duration;

/// Functions that they are spread over.
const FUNCTIONS: usize = 10;

/// A start of all that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// The requests: all of the status, all functions, one function, the newest of the history.
const PATHS: [&str; 4] = [
    "/v1/status",
    "/v1/functions",
    "/v1/functions/runs-0",
    "/v1/invocations?limit=50",
];

/// Measures with so many.
pub(crate) fn measure(rounds: usize, workers: usize, table: &mut Table) {
    let each = workers / FUNCTIONS;
    let script = format!(
        "# /// fnd\n# on_load = false\n# [pool]\n# max = {each}\n# [limits]\n# pids = {}\n# timeout = \"1h\"\n# ///\nexec sleep 3600\n",
        each + 10
    );
    let mut setup = crate::as_shipped();
    for n in 0..FUNCTIONS {
        setup = setup.file(&format!("runs-{n}.sh"), &script);
    }
    let mut fnd = Fnd::prepare(&setup);
    let _run = crate::run_directory_in_memory(&fnd);
    fnd.launch();
    let names: Vec<String> = (0..FUNCTIONS).map(|n| format!("runs-{n}")).collect();
    for name in &names {
        fnd.wait_ready(name);
    }
    let server = Server::Unix(fnd.socket());
    let mut callers: Vec<Caller> = PATHS.iter().map(|path| Caller::asking(&server, path)).collect();
    let idle = ask(&mut callers, rounds);
    let before = programs(&fnd);
    for name in &names {
        let mut caller = Caller::open(&server, &format!("/v1/functions/{name}/invocations"));
        (0..each).for_each(|_| caller.call());
    }
    for name in &names {
        wait_until("all workers to run", PATIENCE, || {
            let function = fnd.function(name)?;
            usize::try_from(function.running)
                .is_ok_and(|running| running == each)
                .then_some(())
        });
    }
    let busy = ask(&mut callers, rounds);
    for (path, (busy, idle)) in PATHS.iter().zip(busy.iter().zip(&idle)) {
        table.times(&format!("GET {path}, nothing running"), idle, idle);
        table.times(&format!("GET {path}, {workers} workers"), busy, idle);
    }
    let after = programs(&fnd);
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        let more = after.saturating_sub(*before) / u64::try_from(workers).unwrap_or(1).max(1);
        table.value(
            &format!("{name}, {workers} workers: RSS, more for each"),
            format!("{after} KiB, {more} KiB"),
        );
    }
    fnd.stop_now();
}

fn ask(callers: &mut [Caller], rounds: usize) -> Vec<Times> {
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in callers {
        actions.push(Box::new(|| caller.call()));
    }
    in_turns(rounds, &mut actions)
}

/// Returns the resident memory of fnd and of its spawner in KiB.
fn programs(fnd: &Fnd) -> Vec<(&'static str, u64)> {
    let pid = fnd.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let spawner = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    let resident = |pid: u32| memory_of(pid).map_or(0, |(resident, _)| resident);
    vec![("fnd", resident(pid)), ("fnd-spawner", spawner.map_or(0, resident))]
}
