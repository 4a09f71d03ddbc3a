//! What supervision costs, beside the same work without it, measured in the same run: `make bench`.
//!
//! Asserts nothing: a shared machine is 30 % off from one run to the next, so only the ratios say something. Prints one
//! table on standard output. `FND_BENCH_ROUNDS` sets how often each thing is measured.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod files;
mod invocations;
mod memory;
mod table;

use fnd_tests::{Fnd, Setup};
use table::Table;

/// The function that is measured: as little as bash can do.
const NOOP: &str = "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# [pool]\n# max = 8\n# ///\n:\n";

fn main() {
    let rounds = std::env::var("FND_BENCH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300);
    let mut table = Table::new();

    let mut fnd = Fnd::start_with(&Setup::default().file("noop.sh", NOOP));
    fnd.wait_ready("noop");
    memory::measure(&fnd, "idle, 1 function", &mut table);
    invocations::measure(&fnd, rounds, &mut table);
    memory::measure(&fnd, "after the runs", &mut table);
    fnd.stop();
    drop(fnd);

    files::measure(&mut table);
    println!("{table}");
}
