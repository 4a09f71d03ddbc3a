//! Ten thousand functions (or some): from start to all of them listed, and one change applied among them.

use crate::http::{Caller, Server};
use crate::load::in_turns;
use crate::memory;
use crate::table::Table;
use fnd_core::api::NodeStatus;
use fnd_tests::{Fnd, now, wait_until};
use std::time::Duration;

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(300);

/// The node alone, and long lists.
const PATHS: [&str; 4] = ["/v1/status?functions=0", "/v1/status", "/v1/functions", "/metrics"];

fn script(word: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\necho {word}\n")
}

/// Measures how long the status and the lists take, each beside the status alone.
fn lists(fnd: &Fnd, files: usize, rounds: usize, table: &mut Table) {
    let server = Server::Unix(fnd.socket());
    let mut callers: Vec<Caller> = PATHS.iter().map(|path| Caller::asking(&server, path)).collect();
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in &mut callers {
        actions.push(Box::new(|| caller.call()));
    }
    let times = in_turns(rounds.min(50), &mut actions);
    for (path, each) in PATHS.iter().zip(&times) {
        table.times(&format!("{files} files: GET {path}"), each, &times[0]);
    }
}

/// Measures all of it, with so many files.
pub(crate) fn measure(rounds: usize, files: usize, table: &mut Table) {
    let mut setup = crate::as_shipped();
    for n in 0..files {
        setup = setup.file(&format!("many-{n}.sh"), &script(&n.to_string()));
    }
    let mut fnd = Fnd::prepare(&setup);
    let start = now();
    fnd.launch();
    let is_ready = |fnd: &Fnd| {
        let status: NodeStatus = fnd.client().get("/v1/status?functions=0").json();
        let ready = status.functions_by_state.get("ready").copied();
        usize::try_from(ready.unwrap_or(0)).is_ok_and(|ready| ready == files)
    };
    wait_until("all functions to be ready", PATIENCE, || is_ready(&fnd).then_some(()));
    table.value(
        &format!("{files} files: start to all ready"),
        format!("{:.2} s", start.elapsed().as_secs_f64()),
    );
    memory::measure(&fnd, &format!("{files} functions"), table);
    lists(&fnd, files, rounds, table);

    let changed = format!("many-{}", files / 2);
    let before = fnd.wait_ready(&changed).version;
    fnd.drop_file(&format!("{changed}.sh"), &script("changed"));
    let start = now();
    wait_until("the change to serve", PATIENCE, || {
        fnd.function(&changed).filter(|function| function.version != before)
    });
    table.value(
        &format!("{files} files: one change to applied"),
        format!("{} ms", start.elapsed().as_millis()),
    );
    fnd.stop();

    let start = now();
    fnd.launch();
    wait_until("all functions to be ready again", PATIENCE, || {
        is_ready(&fnd).then_some(())
    });
    table.value(
        &format!("{files} files: restart to all ready"),
        format!("{:.2} s", start.elapsed().as_secs_f64()),
    );
    fnd.stop();
}
