//! Many files at once, lost events, and restarts in the middle.

use crate::fnd::{Memory, Run, Watcher, created, entry};
use fnd_manifest::function::keys::FileTrigger;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn write(root: &Path, numbers: std::ops::Range<usize>) {
    for number in numbers {
        fs::write(root.join(number.to_string()), "1").unwrap();
    }
}

fn all(count: usize) -> BTreeSet<Run> {
    (0..count).map(|number| created(&number.to_string())).collect()
}

#[track_caller]
fn assert_all(runs: &[Run], count: usize) {
    assert_eq!(runs.len(), count);
    assert_eq!(runs.iter().cloned().collect::<BTreeSet<_>>(), all(count));
}

#[test]
fn a_burst_runs_each_file_once() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[entry(root.path())]);
    write(root.path(), 0..10_000);
    watcher.until("all run", |watcher| watcher.runs.len() >= 10_000);
    watcher.rest(Duration::from_millis(500));
    assert_all(&watcher.runs, 10_000);
    assert_eq!(watcher.memory.files.len(), 10_000);
}

#[test]
fn lost_events_are_made_up_for() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        recursive: true,
        ..entry(root.path())
    }]);
    write(root.path(), 0..1);
    watcher.until("it runs", |watcher| watcher.runs.len() == 1);
    let process = Pid::from_child(&watcher.child);
    kill_process(process, Signal::STOP).unwrap();
    write(root.path(), 1..20_000);
    fs::create_dir(root.path().join("below")).unwrap();
    fs::write(root.path().join("below/a"), "1").unwrap();
    kill_process(process, Signal::CONT).unwrap();
    watcher.until("all run", |watcher| watcher.runs.len() >= 20_001);
    watcher.rest(Duration::from_millis(500));
    let below = watcher.runs.iter().position(|run| run.1 == "below/a").unwrap();
    watcher.runs.remove(below);
    assert_all(&watcher.runs, 20_000);
    // The new directory is watched, too.
    fs::write(root.path().join("below/b"), "1").unwrap();
    watcher.until("it runs", |watcher| watcher.runs.len() == 20_001);
}

#[test]
fn a_restart_in_the_middle_runs_nothing_twice() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), 0..2000);
    let entries = [entry(root.path())];
    let mut runs = Vec::new();
    let mut memory = Memory::default();
    for part in 1..=5 {
        let mut watcher = Watcher::start_with(&entries, memory);
        let count = runs.len();
        watcher.until("some run", |watcher| count + watcher.runs.len() >= 400 * part);
        runs.append(&mut watcher.runs);
        memory = watcher.kill();
    }
    let mut watcher = Watcher::start_with(&entries, memory);
    watcher.rest(Duration::from_millis(500));
    runs.append(&mut watcher.runs);
    assert_all(&runs, 2000);
}

/// Figures for `docs/performance.md`: `cargo nextest run --run-ignored only -E 'test(figures)' --no-capture`.
#[test]
#[ignore = "it measures; nothing can fail"]
fn figures() {
    let root = tempfile::tempdir().unwrap();
    let debounce = Duration::ZERO;
    let entries = [FileTrigger {
        debounce,
        ..entry(root.path())
    }];
    let mut watcher = Watcher::start(&entries);
    watcher.rest(Duration::from_millis(300));
    println!("without files: {} KiB resident", watcher.resident());
    let mut times = Vec::new();
    for number in 0..100 {
        fs::write(root.path().join(format!("x{number}")), "1").unwrap();
        let closed = Instant::now();
        watcher.until("it runs", |watcher| watcher.runs.len() == number + 1);
        times.push(closed.elapsed());
        watcher.rest(Duration::from_millis(10));
    }
    times.sort();
    println!("close to Ready: {:?} (median), {:?} (highest)", times[50], times[99]);
    drop(watcher);
    write(root.path(), 0..100_000);
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    let mut watcher = Watcher::start(&entries);
    watcher.until("all run", |watcher| watcher.runs.len() == 100_100);
    println!(
        "100,000 files: {:?}, {} KiB resident",
        begin.elapsed(),
        watcher.resident()
    );
    let memory = watcher.kill();
    let begin = Instant::now();
    let mut watcher = Watcher::start_with(&entries, memory);
    fs::write(root.path().join("last"), "1").unwrap();
    watcher.until("it runs", |watcher| watcher.runs.len() == 1);
    println!("a restart: {:?}, {} KiB resident", begin.elapsed(), watcher.resident());
    watcher.rest(Duration::from_secs(1));
    assert_eq!(watcher.runs.len(), 1);
}
