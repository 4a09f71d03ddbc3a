//! Files that run functions: how soon after the drop of a file its function starts, and what a hundred thousand files (or
//! some) cost.

use crate::memory;
use crate::table::{Table, Times};
use fnd_tests::{Fnd, install, now, wait_until};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(600);
/// Files of one invocation, where there are many.
const BATCH: usize = 1000;

/// Measures so many drops, one after the other, and so many files at once.
pub(crate) fn measure(rounds: usize, files: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(&crate::as_shipped());
    let (alone, many) = (fnd.shared_directory("alone"), fnd.shared_directory("many"));
    for number in 0..files {
        fs::write(many.join(number.to_string()), "").expect("a file is written");
    }
    fnd.launch();
    one_by_one(&fnd, &alone, rounds, table);
    memory::measure(&fnd, "1 watcher", table);
    let code = "grep -o '\"path\"' | wc -l >>\"$STATE_DIRECTORY/journal\"\n";
    let manifest = format!(
        "[[file]]\npath = \"{}\"\nsettle = \"1ms\"\nbatch = {BATCH}",
        many.display()
    );
    let start = now();
    fnd.drop_file("many.sh", &install::with_manifest("many.sh", &manifest, code));
    wait_until("all files to be handled", PATIENCE, || {
        let lines = journal(&fnd, "many");
        let handled: usize = lines.iter().filter_map(|line| line.parse::<usize>().ok()).sum();
        (handled >= files).then_some(())
    });
    table.value(
        &format!("{files} files that are there: handled in batches of {BATCH} after"),
        format!("{} ms", start.elapsed().as_millis()),
    );
    memory::measure(&fnd, &format!("{files} files"), table);
    fnd.stop();
    let start = now();
    fnd.launch();
    fs::write(many.join("new"), "").expect("a file is written");
    wait_until("the new file to be handled", PATIENCE, || {
        let handled: usize = journal(&fnd, "many")
            .iter()
            .filter_map(|line| line.parse::<usize>().ok())
            .sum();
        (handled > files).then_some(())
    });
    table.value(
        &format!("restart with {files} known files, until a new one is handled"),
        format!("{} ms", start.elapsed().as_millis()),
    );
    fnd.stop();
}

/// Drops files one after the other; each run writes its time.
fn one_by_one(fnd: &Fnd, directory: &Path, rounds: usize, table: &mut Table) {
    let manifest = format!("[[file]]\npath = \"{}\"\ndebounce = \"0\"", directory.display());
    let code = "echo \"$EPOCHREALTIME\" >>\"$STATE_DIRECTORY/journal\"\n";
    fnd.drop_file("one.sh", &install::with_manifest("one.sh", &manifest, code));
    fnd.wait_ready("one");
    let mut times = Vec::new();
    for round in 0..rounds {
        let name = directory.join(format!(".{round}"));
        fs::write(&name, "content").expect("a file is written");
        let dropped = jiff::Timestamp::now().as_duration().unsigned_abs();
        fs::rename(&name, directory.join(round.to_string())).expect("the file is moved");
        let ran = wait_until("the run", PATIENCE, || journal(fnd, "one").get(round).cloned());
        let ran = Duration::from_secs_f64(ran.replace(',', ".").parse().expect("a time"));
        times.push(ran.saturating_sub(dropped));
    }
    let times = Times::new(times);
    table.times("file moved in, until its script runs (debounce 0)", &times, &times);
}

fn journal(fnd: &Fnd, function: &str) -> Vec<String> {
    let path = fnd.path("state/home").join(function).join("journal");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
