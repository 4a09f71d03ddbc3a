//! The machine and everything on it that outlives fnd: the disk, the spawner with its workers, the files of people.

use super::clock::SimulatedClock;
use super::disk::SimulatedDisk;
use super::facts::FactLog;
use super::faults::FaultKinds;
use super::files::Files;
use super::spawner::{SpawnerModel, SpawnerTurn};
use super::workers::Temper;
use crate::cli::Places;
use crate::ledger;
use crate::start::connected::Connected;
use crate::workers::link::SpawnerConnection;
use fastrand::Rng;
use fnd_manifest::diagnostic::Colour;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub(super) struct Node<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) clock: SimulatedClock,
    pub(super) places: Places,
    pub(super) spawner: SpawnerModel,
    pub(super) files: Files,
    pub(super) disk: SimulatedDisk,
    /// The facts of this step.
    pub(super) facts: FactLog,
    /// The faults that workers may have.
    pub(super) temper: Temper,
    /// The random numbers of the workers.
    random: Rng,
    /// All files of fnd; removed at the end.
    _directory: TempDir,
}

impl<'a> Node<'a> {
    /// Returns a machine on which fnd has never run.
    pub(super) fn new(runtime: &'a Runtime, kinds: FaultKinds, random: Rng) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").expect("there is room in memory");
        let places = places_below(directory.path());
        Self {
            runtime,
            clock: SimulatedClock::new(),
            disk: SimulatedDisk::new(&crate::start::own_state(&places)),
            places,
            spawner: SpawnerModel::new(),
            temper: kinds.temper(),
            files: Files::default(),
            facts: FactLog::default(),
            random,
            _directory: directory,
        }
    }

    /// Returns the path of the ledger.
    pub(super) fn ledger(&self) -> PathBuf {
        crate::start::own_state(&self.places).join(ledger::FILE)
    }

    /// Lets the spawner do something.
    pub(super) fn spawner<T>(&mut self, act: impl FnOnce(&mut SpawnerModel, &mut SpawnerTurn<'_>) -> T) -> T {
        let turn = &mut SpawnerTurn {
            now: self.clock.now(),
            files: &self.files,
            facts: &mut self.facts,
            temper: self.temper,
            random: &mut self.random,
        };
        act(&mut self.spawner, turn)
    }

    /// Connects a new fnd to the spawner.
    pub(super) fn connect_fnd(&mut self) -> Connected {
        let sockets = self.places.run_dir.join("http");
        let socket = self.spawner(|spawner, turn| spawner.connect(&sockets, turn));
        let connection = SpawnerConnection::new(socket).expect("the machine has room for a socket");
        let greeted = Connected::greeted(connection, None, self.clock.machine(), Colour::Plain);
        // Everything that the spawner answers is in the socket already.
        self.runtime
            .block_on(greeted)
            .expect("the spawner answers as it should")
    }

    /// Waits until a time on the monotonic clock, or until a timer of a task wakes that task.
    pub(super) fn wait_until(&self, until: Duration, woken: &Notify) {
        self.clock.wait_until(self.runtime, until, woken);
    }

    /// The machine loses its power, and starts anew. No fnd may run.
    pub(super) fn lose_power(&mut self, random: &mut Rng) {
        self.spawner(SpawnerModel::killed);
        self.disk.power_cut(random);
        // These directories are in memory.
        let _ = std::fs::remove_dir_all(&self.places.run_dir); // an error: it is not there
        self.clock.reboot();
    }
}

/// Returns the places of an fnd that keeps everything below one directory.
pub(crate) fn places_below(directory: &Path) -> Places {
    let mut places = Places {
        config: directory.join("fnd.toml"),
        functions: vec![PathBuf::from("/functions")],
        functions_named: true,
        runtimes: Vec::new(),
        runtimes_inside: false,
        state: directory.join("state"),
        run_dir: directory.join("run"),
    };
    places.add_uploads();
    places
}
