//! Any bytes as the file of exits that a stopped spawner leaves for the next one: they are taken back, or set aside.
#![no_main]

use fnd_fuzz::directory;
use fnd_spawner::args::Args;
use fnd_spawner::fd_policy::PassedDescriptor;
use fnd_spawner::places::Places;
use fnd_spawner::policy::Myself;
use fnd_spawner::poller::NUMBER_MAX;
use fnd_spawner::workers::{Host, WorkerTable};
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{Containment, StoredExit};
use fnd_wire::ids::WorkerId;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(directory);

fn workers() -> WorkerTable {
    let (state, run) = (DIRECTORY.path().join("state"), DIRECTORY.path().join("run"));
    let best_effort = true;
    WorkerTable::new(Host {
        args: Args {
            best_effort,
            ..Args::default()
        },
        helper: "/usr/libexec/fnd/fnd-helper".into(),
        places: Places::prepare(&state, &run, false).expect("directories in memory"),
        names: None,
        tree: None,
        containment: Containment::Subreaper,
        lacking: fnd_spawner::sandbox::layers::Missing::default(),
        own_ipc: false,
        own_mounts: false,
        myself: Myself::current(),
        zone: String::new(),
        passed: PassedDescriptor::detect().expect("a pipe and a file in memory"),
    })
}

fuzz_target!(|bytes: &[u8]| {
    let path = DIRECTORY.path().join("exits");
    std::fs::write(&path, bytes).expect("a file in memory");
    let mut workers = workers();
    let restored = workers.restore_ends(&path);
    let aside = path.with_extension("corrupt");
    let in_range = |kept: &Vec<StoredExit>| kept.iter().all(|kept| kept.held.spawned.worker.0 <= NUMBER_MAX);
    let Some(kept) = Vec::<StoredExit>::from_wire(bytes).ok().filter(in_range) else {
        assert!(restored.is_ok() && workers.held(Duration::ZERO).is_empty());
        return std::fs::remove_file(&aside).expect("what is damaged is kept for people");
    };
    assert!(!aside.exists());
    // A pipe does not take as much output as a file may state.
    if restored.is_ok() && !kept.is_empty() {
        let ids: BTreeSet<u64> = kept.iter().map(|kept| kept.held.spawned.worker.0).collect();
        assert_eq!(workers.held(Duration::ZERO).len(), 2 * ids.len());
        for id in ids {
            workers.acknowledge(WorkerId(id));
        }
        assert!(!path.exists(), "all of it is acknowledged");
    }
});
