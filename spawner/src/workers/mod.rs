//! Manages launchers and workers: starts them, ends them and reports on them.
//!
//! ```text
//! Starting ──launcher answers──▶ Running ──pidfd──▶ Draining ──leaf empty──▶ Ended ──acknowledged──▶ gone
//!     └────────failed──▶ gone                        (what is left is killed)
//! ```
//!
//! Files:
//! - `contain`: an init for each attempt where there is no cgroup
//! - `end`: ends of workers, answers of launchers
//! - `environment`: command line and environment of a process, and what it sees of the machine
//! - `launcher`: a process in a function's cgroup that starts its workers
//! - `names`: names of functions' users on the machine
//! - `overdue`: starts and groups that take too long
//! - `ready`: the parts of a start that are made before it
//! - `retained`: workers that outlive an fnd
//! - `signals`: stop signals and SIGKILL
//! - `sockets`: directories of programs that serve HTTP
//! - `start`: makes launchers, and orders starts

pub mod contain;
mod end;
pub mod environment;
pub mod launcher;
pub mod names;
mod overdue;
mod ready;
mod retained;
mod signals;
pub mod sockets;
mod start;

use self::contain::InitReport;
use self::launcher::{LauncherAnswer, LauncherOrder, Spec};
use self::names::UserNames;
use crate::args::Args;
use crate::cgroup::{self, CgroupTree, Counters, Group, Leaf};
use crate::clock::now;
use crate::fd_policy::PassedDescriptor;
use crate::grants::Grants;
use crate::install::Planned;
use crate::log::Failed as _;
use crate::places::{self, FunctionPlaces, Places};
use crate::policy::{self, Myself};
use crate::poller::{NUMBER_MAX, Poller, Token};
use crate::process::clone::{self, Child, Exec, NoStart, tried, tried_in_group};
use crate::process::closing::Closing;
use crate::process::identity::Identity;
use crate::process::reap::{self, ChildEnd};
use crate::process::rlimits;
use crate::protocol::{Channel, Frame};
use crate::sandbox::layers::Missing;
use crate::secrets::credentials::Gathered;
use crate::stat_cache::StatCache;
use crate::uids::Uids;
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::{Containment, Exited, Reply, Spawn, SpawnFailed, Spawned, TermCause};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use fnd_wire::mask::Masks;
use fnd_wire::plan::{Plan, Policy, User};
use fnd_wire::sandbox::Profile;
use overdue::{LeavingLeaf, Silence};
use ready::{ReadyStart, set_aside};
use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an idle launcher stays after its last worker.
const IDLE: Duration = Duration::from_secs(10);
/// How soon and for how long the v1 OOM counter is checked again: the kernel sends the event before it kills, and
/// counts when it kills.
const OOM_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// The limit of which a part, the size of `/tmp`, is enforced everywhere: a function that sets it is not refused.
pub const TMP: &str = "tmp";

/// Answers and reports for fnd: the request that is answered (0: none), the reply, its descriptors.
pub type Outbox = Vec<(u64, Reply, Vec<OwnedFd>)>;

/// The parts of the environment that a start needs.
pub struct Host {
    pub args: Args,
    pub helper: PathBuf,
    pub places: Places,
    /// cgroups, if they can be used.
    pub tree: Option<CgroupTree>,
    /// How process trees are contained.
    pub containment: Containment,
    /// The layers of the sandbox that this machine can't give.
    pub lacking: Missing,
    /// Whether each launcher gets an ipc namespace of its own.
    pub own_ipc: bool,
    /// The user that the spawner runs as.
    pub myself: Myself,
    /// Names of functions' users, if they are kept.
    pub names: Option<UserNames>,
    pub zone: String,
    /// Checks the descriptors that fnd passes.
    pub passed: PassedDescriptor,
    /// Whether nobody else sees what the spawner mounts.
    pub own_mounts: bool,
}

impl Host {
    /// Returns the name on the machine of the user that a plan gets, if this is the function's own user.
    pub fn name(&self, plan: &Plan, uid: u32, home: &Path) -> Option<String> {
        let names = self.names.as_ref().filter(|_| plan.user == User::Own)?;
        names.give(&plan.function, uid, home)
    }

    /// Removes the names of users that a function had: its name on the machine is that of its newest user.
    pub fn forget_names(&self, function: &FunctionName, users: impl Iterator<Item = u32>) {
        if let Some(names) = &self.names {
            users.for_each(|uid| names.remove(function, uid));
        }
    }

    /// Returns the directories that every function sees: those of runtimes, and `interpreters` beside each of them.
    ///
    /// # Errors
    /// If the machine has run out of something.
    pub fn tools(&self, facts: &StatCache) -> io::Result<Vec<PathBuf>> {
        let both = self.args.runtimes.iter().flat_map(|dir| [dir.clone(), dir.with_file_name("interpreters")]);
        both.filter_map(|path| crate::stat_cache::unless_short(facts.real(&path)).transpose()).collect()
    }

    /// Returns the limits that can't be enforced here, each with the reason.
    pub fn missing(&self) -> Vec<(String, String)> {
        let nothing = || cgroup::nothing("fnd-spawner may not use any cgroup");
        let mut missing = self.tree.as_ref().map_or_else(nothing, |tree| tree.missing.clone());
        if !self.own_ipc && self.containment != Containment::PidNamespace {
            let why = "fnd-spawner may not create ipc namespaces, so functions share System V memory and semaphores";
            missing.push(("ipc".to_owned(), why.to_owned()));
        }
        if !self.own_mounts {
            let why = "fnd-spawner has no mount namespace of its own (`--private-mounts`, as in its unit), so only the disk bounds `$TMPDIR`";
            missing.push((TMP.to_owned(), why.to_owned()));
        }
        missing.extend(self.lacking.0.iter().map(|(layer, why)| ((*layer).to_owned(), why.clone())));
        missing
    }
}

/// The kind of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// An attempt, or a handler's worker.
    Attempt,
    /// The watcher of a version's files.
    Watcher,
    /// Measures the home and the cache.
    Measurement,
}

struct Launcher {
    function: FunctionId,
    version: Version,
    /// Whether it starts programs of fnd, which have no sandbox.
    watch: bool,
    plan: Plan,
    identity: Option<Identity>,
    user: String,
    channel: Channel,
    child: Child,
    live: usize,
    idle_since: Duration,
    /// Number of unanswered orders, and for how long the launcher has been silent.
    owes: usize,
    silence: Silence,
    retired: bool,
    /// Whether the launcher got the order to end.
    stopping: bool,
}

#[derive(Default)]
struct Active {
    group: Option<Group>,
    oom: Option<OwnedFd>,
    /// Until when the counter is checked for a kill after memory ran out.
    oom_until: Option<Duration>,
    /// The parts of the next start.
    ready: Option<ReadyStart>,
}

#[derive(Default)]
struct WorkerProcess {
    function: FunctionId,
    /// The invocation whose `TMPDIR` the worker uses.
    invocation: InvocationId,
    launcher: u64,
    /// The request that asked for its start.
    request: u64,
    leaf: Option<Leaf>,
    /// Directory of the worker's socket, if it serves HTTP on one.
    socket: Option<PathBuf>,
    before: Counters,
    shared: bool,
    /// Signals that were requested before the process existed.
    early: Vec<Signal>,
    /// Copies of the worker's descriptors for fnd, until it has started.
    ready: Vec<OwnedFd>,
    /// The adoption record from fnd, not interpreted here.
    record: Bytes,
    /// Process id of the worker's first process.
    pid: u32,
    /// Read ends of standard output and error, and `$FND_RESULT`.
    ends: Vec<OwnedFd>,
    /// fnd's end of a handler's socket, or the socket at which the handler's worker connects. Unread data in it is lost
    /// when the spawner ends; the calls concerned are then interrupted.
    channel: Option<Closing>,
    /// When the start was ordered.
    began: Duration,
    /// When the worker's time is up; a lease moves it.
    until: Option<Duration>,
    /// The signal that asks it to end; absent: SIGTERM.
    stop: Option<Signal>,
    termed: Option<(Duration, TermCause)>,
    killed: bool,
    /// Fingerprints of the secrets that it can print.
    masks: Masks,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    Starting,
    /// Its first process, and the channel on which an init reports the end.
    Running(Child, Option<OwnedFd>),
    /// How the first process ended, and whether others still ran.
    Draining(ChildEnd, bool),
    /// The exit, how long the worker has run, and the end in Unix milliseconds.
    Ended(Exited, Duration, u64),
}

/// All launchers and workers.
pub struct WorkerTable {
    pub host: Host,
    launchers: BTreeMap<u64, Launcher>,
    workers: BTreeMap<u64, WorkerProcess>,
    active: HashMap<FunctionId, Active>,
    /// The secrets and service bindings of installed versions.
    given: HashMap<(FunctionId, Version), Gathered>,
    /// How many starts of a function in a row hung.
    hangs: HashMap<FunctionId, u32>,
    launcher_count: u64,
    /// The first unused worker number.
    pub next: u64,
    /// Number of leaves that were made.
    leaves: u64,
    /// File of the exits of an earlier spawner, until all of them are acknowledged.
    kept: Option<PathBuf>,
    /// Cgroups of attempts whose end is reported next; then they are removed.
    emptied: Vec<(u64, Leaf)>,
    /// Cgroups of ended attempts that could not be removed yet.
    leaving: Vec<LeavingLeaf>,
    /// Directories of sockets whose workers are gone, to be removed.
    pub sockets: Vec<PathBuf>,
    /// User and group of the connected fnd: workers started from now on give the group their sockets.
    pub fnd: (u32, u32),
    /// Unused descriptors; closing some makes room for others.
    aside: Vec<OwnedFd>,
    /// How much longer fnd has to end a worker whose time is up.
    slack: Duration,
    /// When [`enforce`](Self::enforce) is due, perhaps too early: the worker concerned may have ended.
    enforce_at: Option<Duration>,
}

impl WorkerTable {
    /// Returns a value without launchers and workers.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            launchers: BTreeMap::new(),
            workers: BTreeMap::new(),
            active: HashMap::new(),
            given: HashMap::new(),
            hangs: HashMap::new(),
            launcher_count: 0,
            // A launcher takes the number 0 for the order to end.
            next: 1,
            leaves: 0,
            kept: None,
            emptied: Vec::new(),
            leaving: Vec::new(),
            sockets: Vec::new(),
            fnd: (0, 0),
            aside: Vec::new(),
            slack: Duration::ZERO,
            enforce_at: None,
        }
    }

    /// Returns the workers of which a process may still run, each with its grace.
    pub fn running(&self) -> Vec<(WorkerId, Duration)> {
        let running = self.workers.iter().filter(|(_, worker)| !worker.is_over());
        let grace = |number: &u64| self.launchers.get(number).map_or(0, |launcher| launcher.plan.limits.grace_ms);
        running.map(|(id, worker)| (WorkerId(*id), Duration::from_millis(grace(&worker.launcher)))).collect()
    }

    /// Forgets the exit of a worker.
    pub fn acknowledge(&mut self, id: WorkerId) {
        // A worker that still runs stays, whatever fnd says: nobody else would end it.
        if self.workers.get(&id.0).is_some_and(WorkerProcess::is_over) {
            // Nobody uses its connection any more: it has ended, and fnd has recorded its end.
            let _ = self.workers.remove(&id.0).and_then(|worker| worker.channel).map(Closing::end);
            // The file of kept exits goes once all of them are acknowledged.
            if let Some(path) = self.kept.take_if(|_| self.workers.values().all(|worker| worker.launcher != 0)) {
                let _ = fs::remove_file(path); // if it stays, the ledger recognizes the exits when they come again
            }
        }
    }

    /// Makes the launchers of a function's other versions (all versions, without `keep`) end once they are idle.
    pub fn retire(&mut self, function: FunctionId, keep: Option<Version>) {
        for launcher in self.launchers.values_mut() {
            launcher.retired |= launcher.function == function && Some(launcher.version) != keep;
        }
    }

    /// Records the secrets and service bindings of a version.
    pub fn give(&mut self, function: FunctionId, version: Version, gathered: Option<Gathered>) {
        self.given.remove(&(function, version));
        self.given.extend(gathered.map(|gathered| ((function, version), gathered)));
    }

    /// Gives the secrets of a function's version to the same version of another function.
    pub fn lend(&mut self, from: Option<FunctionId>, (to, version): (FunctionId, Version)) {
        let lent = from.and_then(|from| self.given.get(&(from, version)));
        let copied = lent.and_then(|Gathered { head, memory }| {
            let memory = memory.try_clone().ok()?; // without it, the start says that the secrets were not read
            Some(Gathered { head: head.clone(), memory })
        });
        self.give(to, version, copied);
    }

    /// Forgets the secrets and service bindings of a function's versions except these.
    pub fn keep_given(&mut self, function: FunctionId, keep: &[Version]) {
        self.given.retain(|(of, version), _| *of != function || keep.contains(version));
    }

    /// Ends the launchers of a function that was removed, once they are idle, and forgets what it had.
    pub fn forget(&mut self, function: FunctionId) {
        self.retire(function, None);
        self.keep_given(function, &[]);
        self.hangs.remove(&function);
    }

    /// Returns the invocations whose directories are in use.
    pub fn invocations(&self) -> impl Iterator<Item = InvocationId> {
        self.workers.values().map(|worker| worker.invocation)
    }

    /// Returns whether no process of a function runs or is about to start.
    pub fn is_idle(&self, function: FunctionId) -> bool {
        !self.workers.values().any(|worker| worker.function == function && !worker.is_over())
    }

    /// Returns whether a version has a launcher.
    pub fn uses(&self, version: &Version) -> bool {
        self.launchers.values().any(|launcher| launcher.version == *version)
    }

    /// Ends launchers that were idle long enough, and checks OOM counters that are due.
    pub fn tick(&mut self, now: Duration) {
        self.check_oom(now);
        for launcher in self.launchers.values_mut() {
            if launcher.live == 0 && now >= launcher.ends_at() && !launcher.stopping {
                // The launcher gets an order to end. Closing its socket instead would make it kill the workers of a
                // newer version.
                let stop: LauncherOrder = (0, (Vec::new(), Vec::new()));
                if launcher.channel.send(&stop.to_wire(), Vec::new()).is_err() {
                    launcher.child.signal(Signal::KILL);
                }
                (launcher.retired, launcher.stopping) = (true, true);
            }
        }
    }

    /// Returns when [`tick`](Self::tick), [`overdue`](Self::overdue) or [`enforce`](Self::enforce) is due, perhaps too early.
    pub fn deadline(&self) -> Option<Duration> {
        let idle = self.launchers.values().filter(|launcher| launcher.live == 0 && !launcher.stopping);
        let oom_checks = self.active.values().filter_map(|active| active.oom_until).map(|_| now() + OOM_AGAIN.0);
        let leaving = self.leaving.iter().map(|leaving| leaving.at).chain(self.enforce_at);
        let owed = self.launchers.values().filter_map(Launcher::check_at);
        idle.map(Launcher::ends_at).chain(oom_checks).chain(leaving).chain(owed).min()
    }

    /// Waits for the first process of each running worker; call it after [`kill_all`](Self::kill_all).
    pub fn wait(&self) {
        for worker in self.workers.values() {
            if let Stage::Running(child, _) = &worker.stage {
                let _ = reap::wait(child);
            }
        }
    }

    /// Kills every worker, and every launcher.
    pub fn kill_all(&mut self) {
        for (id, _) in self.running() {
            self.terminate(id, TermCause::Stopped); // also what started after the stop has begun
            self.signal(id, Signal::KILL);
        }
        // By signal, since a launcher that hangs reads no order.
        self.launchers.values().for_each(|launcher| launcher.child.signal(Signal::KILL));
    }

    /// Returns the worker whose first process this is, and whether the process is a launcher.
    pub fn who_is(&self, pid: u32) -> (Option<u64>, bool) {
        let first = |worker: &WorkerProcess| matches!(&worker.stage, Stage::Running(child, _) if child.pid == pid);
        let worker = self.workers.iter().find(|(_, worker)| first(worker)).map(|(id, _)| *id);
        (worker, self.launchers.values().any(|launcher| launcher.child.pid == pid))
    }

    /// Returns whether an ended process may belong to a start that its launcher has not answered yet.
    pub fn may_be_starting(&self, pid: u32) -> bool {
        let is_in = |leaf: &str, worker: &WorkerProcess| worker.leaf.as_ref().is_some_and(|own| own.is(leaf));
        let starting = |leaf: String| self.workers.values().any(|worker| worker.is_starting() && is_in(&leaf, worker));
        // If the leaf of the process can't be found out, it may be one that starts, and the launcher's answer decides.
        self.any_starting() && (self.host.tree.is_none() || cgroup::leaf_of(pid).is_none_or(starting))
    }
}

impl WorkerProcess {
    fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting)
    }

    /// Returns whether the worker's exit was recorded.
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended(..))
    }
}

impl Launcher {
    fn ends_at(&self) -> Duration {
        if self.retired { self.idle_since } else { self.idle_since + IDLE }
    }
}
