//! A function that prints a gigabyte: how much of it is on the disk at once, and how much slower another function
//! becomes. For comparison a second function does the same work without output, since its use of the CPU slows others,
//! too.

use crate::http::{Caller, Server};
use crate::load::timed;
use crate::table::{Table, Times};
use fnd_tests::{Fnd, now};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers at once.
const NEIGHBOUR: &str = "def handler(event, context):\n    return 'hello'\n";

/// Measures with so many bytes of output.
pub(crate) fn measure(rounds: usize, bytes: usize, table: &mut Table) {
    let script = |to: &str| {
        format!(
            "# /// fnd\n# on_load = false\n# ///\nyes 'a line of output that nobody waits for' | head -c {bytes}{to}\n"
        )
    };
    let setup = crate::as_shipped()
        .file("prints.sh", &script(""))
        .file("silent.sh", &script(" >/dev/null"))
        .file("neighbour.py", NEIGHBOUR);
    let mut fnd = Fnd::prepare(&setup);
    let _run = crate::run_directory_in_memory(&fnd);
    fnd.launch();
    for name in ["prints", "silent", "neighbour"] {
        fnd.wait_ready(name);
    }
    let server = Server::Unix(fnd.socket());
    let mut caller = Caller::open(&server, "/v1/functions/neighbour/invoke");
    (0..100).for_each(|_| caller.call());
    let alone = Times::new((0..rounds * 10).map(|_| timed(|| caller.call())).collect());
    table.times("a neighbour, alone", &alone, &alone);
    for (name, what) in [
        ("silent", "beside as much work, silent"),
        ("prints", "beside a flood of output"),
    ] {
        let (mut times, mut largest) = (Vec::new(), 0);
        let begun = now();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = fnd.invoke(name, "");
                ended.store(true, Ordering::Release);
            });
            while !ended.load(Ordering::Acquire) {
                times.push(timed(|| caller.call()));
                if times.len() % 256 == 0 {
                    largest = largest.max(size(&fnd.path("state")));
                }
            }
        });
        let took = begun.elapsed().as_secs_f64();
        table.times(&format!("a neighbour, {what}"), &Times::new(times), &alone);
        if name == "prints" {
            let rate = f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0 / took;
            table.value(&format!("{} MiB printed", bytes >> 20), format!("{rate:.0} MiB/s"));
            table.value("its state directory, at most", format!("{} KiB", largest >> 10));
        }
    }
    fnd.stop();
}

/// Returns the bytes a directory and what is below it take on the disk.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0, // removed meanwhile
    };
    entries.map(of).sum()
}
