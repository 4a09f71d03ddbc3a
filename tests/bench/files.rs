//! Ten thousand functions (or some): from start to all of them listed, and one change applied among them.

use crate::cpu::Cpu;
use crate::http::{Caller, Server};
use crate::load::in_rounds;
use crate::memory;
use crate::table::Table;
use fnd_core::api::NodeStatus;
use fnd_tests::{Fnd, Setup, now, wait_until};
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, statfs,
};
use std::path::Path;
use std::time::Duration;

/// A little more than the age at which fnd takes a file for complete without having seen that it was closed.
const SETTLED: Duration = Duration::from_millis(2200);

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until no function's file is so young that fnd would wait for it: it may still be written to (`catalog/scan.rs`).
fn let_files_settle(fnd: &Fnd, youngest: &str) {
    let path = fnd.path("functions").join(youngest);
    wait_until("the files to be old enough", PATIENCE, || {
        let modified = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok()?;
        modified.elapsed().is_ok_and(|age| age > SETTLED).then_some(())
    });
}

const LISTS: [&str; 3] = ["/v1/status", "/v1/functions", "/metrics"];

/// Returns the path of the status without functions. An fnd that is compared may be older than this parameter.
fn status_path(fnd: &Fnd) -> &'static str {
    let alone = "/v1/status?functions=0";
    if fnd.client().get(alone).status == 200 {
        alone
    } else {
        "/v1/status"
    }
}

fn script(word: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\necho {word}\n")
}

/// Measures how long the status and the lists take, each beside the status alone.
fn lists(fnd: &Fnd, files: usize, rounds: usize, table: &mut Table) {
    let server = Server::Unix(fnd.socket());
    let paths = [status_path(fnd)].into_iter().chain(LISTS);
    let mut callers: Vec<Caller> = paths.map(|path| Caller::asking(&server, path)).collect();
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in &mut callers {
        actions.push(Box::new(|| caller.call()));
    }
    let times = in_rounds(rounds.min(50), &mut actions);
    let Some(floor) = times.first() else { return };
    for (name, each) in ["status without functions"].into_iter().chain(LISTS).zip(&times) {
        table.times(&format!("{files} files: {name}"), each, floor);
    }
}

/// Returns the set-up of so many functions: `many-0`, `many-1`, ...
pub(crate) fn setup(files: usize) -> Setup {
    (0..files).fold(crate::as_shipped(), |setup, n| {
        setup.file(&format!("many-{n}.sh"), &script(&n.to_string()))
    })
}

/// Waits until so many functions are ready.
pub(crate) fn wait_ready(fnd: &Fnd, files: usize) {
    let path = status_path(fnd);
    wait_until("all functions to be ready", PATIENCE, || {
        let status: NodeStatus = fnd.client().get(path).json();
        let ready = status.functions_by_state.get("ready").copied();
        usize::try_from(ready.unwrap_or(0))
            .is_ok_and(|ready| ready == files)
            .then_some(())
    });
}

/// Measures all of it, with so many files.
pub(crate) fn measure(rounds: usize, files: usize, table: &mut Table) {
    let mut fnd = Fnd::prepare(&setup(files));
    let_files_settle(&fnd, &format!("many-{}.sh", files.saturating_sub(1)));
    let start = now();
    fnd.launch();
    wait_ready(&fnd, files);
    table.value("file system of functions and state", file_system(&fnd.path("state")));
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    table.value(&format!("{files} files: start to all ready"), seconds(start.elapsed()));
    table.value(
        &format!("{files} files: start, CPU of fnd and spawner"),
        seconds(Cpu::of(&fnd).total()),
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

    let_files_settle(&fnd, &format!("{changed}.sh"));
    let start = now();
    fnd.launch();
    wait_ready(&fnd, files);
    table.value(
        &format!("{files} files: restart to all ready"),
        seconds(start.elapsed()),
    );
    table.value(
        &format!("{files} files: restart, CPU of fnd and spawner"),
        seconds(Cpu::of(&fnd).total()),
    );
    fnd.stop();
}

/// Returns the kind of a directory's file system. An ext4 without a journal is slow for minutes after many deletions.
fn file_system(directory: &Path) -> String {
    let Ok(found) = statfs(directory) else {
        return "unknown".to_owned();
    };
    match found.filesystem_type() {
        EXT4_SUPER_MAGIC => "ext4".to_owned(),
        TMPFS_MAGIC => "tmpfs".to_owned(),
        BTRFS_SUPER_MAGIC => "btrfs".to_owned(),
        XFS_SUPER_MAGIC => "xfs".to_owned(),
        OVERLAYFS_SUPER_MAGIC => "overlayfs".to_owned(),
        other => format!("{other:?}"),
    }
}
