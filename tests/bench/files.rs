//! Ten thousand functions: from start to all of them listed, and one change applied among them.

use crate::memory;
use crate::table::Table;
use fnd_tests::{Fnd, Setup, now, wait_until};
use std::time::Duration;

const FILES: u32 = 10_000;

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(300);

fn script(word: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\necho {word}\n")
}

/// Measures both.
pub(crate) fn measure(table: &mut Table) {
    let mut setup = Setup::default();
    for n in 0..FILES {
        setup = setup.file(&format!("many-{n}.sh"), &script(&n.to_string()));
    }
    let mut fnd = Fnd::prepare(&setup);
    let start = now();
    fnd.launch();
    let ready = |fnd: &Fnd| fnd.status().functions_by_state.get("ready").copied().unwrap_or(0);
    wait_until("10,000 functions to be ready", PATIENCE, || {
        (ready(&fnd) == FILES).then_some(())
    });
    table.value(
        "10,000 files: start to all ready",
        format!("{:.2} s", start.elapsed().as_secs_f64()),
    );
    memory::measure(&fnd, "10,000 functions", table);

    let before = fnd.wait_ready("many-5000").version;
    fnd.drop_file("many-5000.sh", &script("changed"));
    let start = now();
    wait_until("the change to serve", PATIENCE, || {
        fnd.function("many-5000").filter(|function| function.version != before)
    });
    table.value(
        "10,000 files: one change to applied",
        format!("{} ms", start.elapsed().as_millis()),
    );
    fnd.stop();

    let start = now();
    fnd.launch();
    wait_until("10,000 functions to be ready again", PATIENCE, || {
        (ready(&fnd) == FILES).then_some(())
    });
    table.value(
        "10,000 files: restart to all ready",
        format!("{:.2} s", start.elapsed().as_secs_f64()),
    );
    fnd.stop();
}
