//! Runs the spawner's loop: it handles one event at a time and never waits in between.
//!
//! Files:
//! - `building`: dependencies of functions
//! - `configuration`: the last good one is kept
//! - `gathering`: secrets of functions, before an install
//! - `helpers`: copies of the spawner for work that takes long
//! - `orphans`: processes whose parent has ended
//! - `removing`: files of removed versions and ended invocations
//! - `requests`: connections and requests of fnd
//! - `verdicts`: verdicts of the judge, and installing

mod building;
mod configuration;
mod gathering;
mod helpers;
mod orphans;
mod removing;
mod requests;
mod verdicts;

use crate::args::{Args, SocketSource};
use crate::cgroup::{self, CgroupTree};
use crate::clock::{self, now};
use crate::fd_policy::PassedDescriptor;
use crate::grants::Grants;
use crate::install::build_homes::BuildHomes;
use crate::install::judge::Judge;
use crate::install::source::Sources;
use crate::install::{self, InstallProgress, Snapshot};
use crate::listener;
use crate::log::Failed as _;
use crate::places::{self, Places};
use crate::policy::{self, Myself, problem};
use crate::poller::{NumberedToken, Poller, Token};
use crate::process::closing;
use crate::protocol::Channel;
use crate::ranges::{self, Ranges};
use crate::removal;
use crate::sandbox::mounts;
use crate::secrets::SecretSources;
use crate::secrets::vault::{NoSecret, Vault};
use crate::stat_cache::StatCache;
use crate::uids::{self, Uids};
use crate::workers::names::UserNames;
use crate::workers::sockets;
use crate::workers::{Host, Outbox, Program, TMP, WorkerTable};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::{
    Containment, ExitStatus, Hello, Install, Installed, MemoryGroups, PROTOCOL_0_1, PROTOCOL_MAX, PROTOCOL_MIN,
    Problem, Prune, Refused, Release, Reply, Request, SecretAsked, SettingsRead, Spawn, SpawnFailed, Sweep, TermCause,
    Welcome, decode, encode,
};
use fnd_wire::ids::{FunctionName, Version, WorkerId};
use fnd_wire::naming::UPLOADS;
use fnd_wire::plan::{JudgeReply, JudgeRequest, JudgeSettings, LAST_SETTINGS, Policy, SettingsJudgment};
use fnd_wire::sandbox::Profile;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use helpers::{After, Helpers, Lane};
use verdicts::{Job, Judged, Subject};

/// If more frames than this wait for fnd, no more requests are read until fnd has read some.
const BACKLOG: usize = 1000;
/// How long after an install its copies are synced, all together; no copy is synced alone.
const SYNC_AFTER: Duration = Duration::from_secs(3);
/// Extra time after a worker's deadline in which a connected fnd may end the worker itself: fnd may be busy, and knows
/// best why the worker is ended.
const FNDS_TURN: Duration = Duration::from_secs(1);
/// If a turn of the loop begins this late, the spawner was stopped or had no CPU time: what it waits for gets the time again.
const OWN_PAUSE: Duration = Duration::from_secs(1);
/// How long the spawner waits at its start or end for all processes to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a new fnd waits for starts that are under way.
const STARTS: Duration = Duration::from_secs(1);

pub struct Spawner {
    poller: Poller,
    listener: Option<OwnedFd>,
    connection: Option<Channel>,
    /// The number of the connection, or of the next one. It is the upper half of the number of each request here.
    connections: u64,
    /// Whether the connection is watched for reading and for writing.
    interest: (bool, bool),
    welcomed: bool,
    /// The protocol of this connection.
    protocol: u16,
    /// The Hello of a new connection: its request number, its body, and when it is answered at the latest.
    hello: Option<(u64, Hello, Duration)>,
    signals: SignalFd,
    /// When to wait next for ended children that no other part of the spawner waits for.
    orphans: Option<Duration>,
    sources: Sources,
    uids: Uids,
    /// The locks on this spawner's range of users; present if functions have users of their own.
    ranges: Option<Ranges>,
    workers: WorkerTable,
    judge: Judge,
    policy: Option<Policy>,
    /// The profile of functions that name none.
    profile: Profile,
    /// Whether the connected fnd got a configuration that is in force.
    configured: bool,
    /// Waiting jobs. The next stages are `reading`, `next` (ready for the judge) and `judging` (sent to the judge).
    jobs: VecDeque<Job>,
    /// How often the first job was skipped.
    passed_over: usize,
    reading: Option<Snapshot>,
    next: Option<(Subject, JudgeRequest)>,
    judging: VecDeque<Subject>,
    snapshots: u64,
    /// Snapshots whose large file was copied; the rest of their files is still to be read.
    copied: VecDeque<Snapshot>,
    helpers: Helpers,
    grants: Grants,
    build_homes: BuildHomes,
    secrets: SecretSources,
    /// When installed copies are synced to the disk.
    sync_at: Option<Duration>,
    /// When the spawner is stopping: when the remaining processes are killed.
    stopping: Option<Duration>,
}

impl Spawner {
    /// Returns a spawner that is ready to run.
    ///
    /// # Errors
    /// Why it can't run, for people.
    pub fn start(args: Args) -> Result<Self, String> {
        // The modes of all files and directories are meant with this umask, whatever started this process.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let myself = Myself::current();
        let places = Places::prepare(&args.state, &args.run, myself.root()).failed("prepare the state directory")?;
        let uids = Uids::open(&places.state.join("spawner/uids"))?;
        let homes = uids::owners(&places.state.join("home"), &uids).failed("list the homes of functions")?;
        let uids = uids.with_homes(homes);
        let ranges = myself.root().then(|| Ranges::open(ranges::FILE.as_ref())).transpose()?;
        let names = args.userdb.clone().filter(|_| myself.root()).map(UserNames::open).transpose()?;
        let signals = signals().failed("block signals")?;
        let unlimited = |why: &String| crate::log!("limits of memory, processes, CPU and IO can't be enforced: {why}");
        let tree = cgroups(&args, &places).inspect_err(unlimited).ok();
        let containment =
            if tree.is_some() { Containment::Cgroup } else { crate::workers::contain::without_cgroups(myself.root()) };
        let mut lacking = crate::sandbox::layers::probe(&places.root(), myself.root());
        if containment == Containment::Subreaper && lacking.can("pid") {
            lacking.0.push(("pid", "the machine does not allow it".to_owned()));
        }
        let poller = Poller::new().failed("create an epoll instance")?;
        poller.add(&signals, (Token::Signals, 0)).failed("watch signals")?;
        // The helper beside this program is of the same build.
        let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("fnd-helper")).filter(|it| it.exists());
        let helper = args.helper.clone().or(beside).unwrap_or_else(|| "/usr/libexec/fnd/fnd-helper".into());
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let runs = places.state.join("tmp");
        let unbounded = |why: &io::Error| {
            crate::log!("TMPDIR is bounded by the disk only: failed to mount `{}`: {why}", runs.display());
        };
        // Before Linux 6.15 several launchers cannot copy a mount without a place in the tree. So these mounts have a
        // place, in a mount namespace that nobody else sees.
        let own_mounts = args.private_mounts && mounts::separate(&runs).inspect_err(unbounded).is_ok();
        let (dirs, uploads) = (args.functions.clone(), args.state.join(UPLOADS));
        let sources = Sources { dirs, uploads, myself: myself.clone(), facts: StatCache::default() };
        let secrets = SecretSources::new(Vault::new(&args.config, credentials, myself.clone()));
        let (judge, socket) = (Judge::new(helper.clone(), myself.root()), args.socket.clone());
        let (own_ipc, zone) = (crate::workers::contain::own_ipc(), crate::workers::environment::machine_zone());
        let passed = PassedDescriptor::detect().failed("examine a pipe and a memory file")?;
        let host =
            Host { args, helper, places, tree, containment, own_ipc, lacking, names, zone, passed, own_mounts, myself };
        let mut spawner = Self {
            poller,
            listener: None,
            connection: None,
            connections: 1,
            interest: (true, false),
            welcomed: false,
            protocol: PROTOCOL_MIN,
            hello: None,
            signals,
            orphans: None,
            sources,
            uids,
            ranges,
            workers: WorkerTable::new(host),
            judge,
            policy: None,
            profile: Profile::Strict,
            configured: false,
            jobs: VecDeque::new(),
            passed_over: 0,
            reading: None,
            next: None,
            judging: VecDeque::new(),
            snapshots: crate::clock::unix_ms(), // so no name is one that an earlier spawner left
            copied: VecDeque::new(),
            helpers: Helpers::default(),
            grants: Grants::default(),
            build_homes: BuildHomes::default(),
            secrets,
            sync_at: None,
            stopping: None,
        };
        // Before fnd can connect: the stored exits decide which worker number is the first free one.
        spawner.workers.restore_ends(&spawner.exits())?;
        spawner.remove_staged();
        spawner.workers.host.places.remove_spare_results();
        let sockets = sockets::rename_earlier(&spawner.workers.host.places.http());
        spawner.workers.sockets = sockets.failed("list the directories of sockets")?;
        if let Some(SocketSource::Inherited(number)) = socket {
            let socket = listener::inherited(number);
            socket.and_then(|socket| spawner.connect(socket)).failed("use the inherited socket")?;
        } else if let Some(SocketSource::Listen(path)) = socket {
            let listener = listener::listen_at(&path).failed("open the socket")?;
            spawner.poller.add(&listener, (Token::Listener, 0)).failed("listen")?;
            spawner.listener = Some(listener);
        }
        Ok(spawner)
    }

    /// Runs until a signal or fnd's end stops the spawner.
    ///
    /// # Errors
    /// Why the loop failed, for people.
    pub fn run(mut self) -> Result<(), String> {
        notify(&[sd_notify::NotifyState::Ready]);
        let result = self.serve();
        notify(&[sd_notify::NotifyState::Stopping]);
        self.workers.kill_all();
        match &self.workers.host.tree {
            Some(tree) => tree.clear(PATIENCE),
            // The inits get a signal when their parent dies; this only waits for their end.
            None => self.workers.wait(),
        }
        // Only now, when no process writes to a pipe any more, the rest of the output is complete.
        let stored = self.workers.store_ends(&self.exits()).failed("store the exits of workers");
        let _ = stored.map_err(|why| crate::log!("{why}"));
        result.failed("wait for events")
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut due = now();
        loop {
            let now = now();
            let pause = now.saturating_sub(due);
            if pause >= OWN_PAUSE {
                self.judge.wait_longer(pause);
                self.helpers.wait_longer(pause);
            }
            self.workers.tick(now);
            let mut out = Outbox::new();
            self.workers.overdue(now, &mut out);
            self.send_replies(out);
            self.workers.enforce(now, if self.connection.is_some() { FNDS_TURN } else { Duration::ZERO });
            self.answer_hello();
            self.judge_some();
            closing::dropped().into_iter().for_each(|descriptors| self.helpers.close(descriptors));
            if self.sync_at.is_some_and(|at| now >= at) {
                self.sync_at = None;
                self.sync();
            }
            self.remove_sockets();
            self.helpers.start(&self.poller).into_iter().for_each(|after| self.helped(after));
            self.helpers.enforce(now);
            if let Some(connection) = &self.connection {
                let interest = (connection.waiting() <= BACKLOG, connection.waiting() > 0);
                // epoll is told of changes only, since each change is a system call.
                if std::mem::replace(&mut self.interest, interest) != interest {
                    self.poller.change(connection, (Token::Connection, 0), interest);
                }
            }
            if let Some(kill_at) = self.stopping {
                if self.workers.running().is_empty() {
                    return Ok(());
                }
                if now >= kill_at {
                    self.workers.kill_all();
                    // A start that was under way may still bring a process, so the kill is repeated.
                    self.stopping = Some(now + Duration::from_secs(1));
                }
            }
            if self.connection.is_none() && self.listener.is_none() && self.stopping.is_none() {
                self.stop(false); // fnd has ended, and this process is its child
                continue;
            }
            // While files wait to be read, the loop only looks at the events and begins the next turn at once.
            let reading = self.can_read().then_some(now);
            let own = [self.stopping, self.sync_at, self.orphans, reading, self.hello.as_ref().map(|(_, _, at)| *at)];
            let others = [self.workers.deadline(), self.judge.deadline(), self.helpers.deadline()];
            let first = own.into_iter().chain(others).flatten().min();
            let timeout = first.map(|at| at.saturating_sub(now));
            due = timeout.map_or(Duration::MAX, |timeout| now + timeout);
            self.poller.wait(timeout)?.into_iter().for_each(|token| self.handle(token));
            // After the events: most children that ended belong to one of them.
            if self.orphans.is_some_and(|at| at <= clock::now()) {
                self.reap_orphans();
            }
        }
    }

    fn handle(&mut self, (token, number): NumberedToken) {
        let mut out = Outbox::new();
        match token {
            Token::Listener => self.accept(),
            Token::Connection => self.read_requests(),
            Token::Signals => self.signalled(),
            Token::Judge => self.judge_answered(),
            Token::Launcher => self.workers.launcher_ready(number, &self.poller, &mut out),
            Token::Worker => self.workers.worker_ended(number, &self.poller, &mut out),
            Token::Leaf => self.workers.leaf_changed(number, &self.poller, &mut out),
            Token::Oom => self.workers.oom(number),
            Token::Helper => self.helpers.ended(number).into_iter().for_each(|after| self.helped(after)),
        }
        self.send_replies(out);
        self.workers.remove_emptied();
    }

    fn send_replies(&mut self, mut out: Outbox) {
        // An end by this stop is not the function's. A connected fnd knows the cause only when the connection closes; the next one reads it.
        out.retain(|(_, reply, _)| self.stopping.is_none() || !matches!(reply, Reply::Exited(_)));
        for (request, reply, descriptors) in out {
            if let Reply::Exited(exited) = &reply {
                self.build_homes.ended(exited.worker, exited.status == ExitStatus::Code(0));
            }
            self.reply(request, &reply, descriptors);
        }
    }

    /// Returns the file that keeps unacknowledged exits over a stop.
    fn exits(&self) -> PathBuf {
        self.workers.host.places.state.join("spawner/exits")
    }

    fn signalled(&mut self) {
        let Ok(Some(signal)) = self.signals.read_signal() else { return };
        if signal.ssi_signo == Signal::SIGCHLD as u32 {
            return self.orphans = Some(Duration::ZERO);
        }
        if matches!(self.workers.host.args.socket, Some(SocketSource::Inherited(_))) {
            return; // Ctrl-C, a closed terminal and a signal to the group reach fnd as well, and fnd decides
        }
        if signal.ssi_signo == Signal::SIGHUP as u32 {
            return self.jobs.push_back(Job::Reload(0));
        }
        if self.stopping.is_some() {
            return self.workers.kill_all(); // this is the second signal
        }
        notify(&[sd_notify::NotifyState::Stopping]);
        crate::log!("stopping: {} running", self.workers.running().len());
        self.stop(true);
    }

    /// Ends all workers, with or without their grace, and then the spawner itself.
    fn stop(&mut self, with_grace: bool) {
        let running = self.workers.running();
        running.iter().for_each(|(worker, _)| self.workers.terminate(*worker, TermCause::Stopped));
        let grace = running.iter().map(|(_, grace)| *grace).filter(|_| with_grace).max().unwrap_or_default();
        self.stopping = Some(now() + grace);
    }
}

fn cgroups(args: &Args, places: &Places) -> Result<CgroupTree, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let found = cgroup::hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    if rustix::process::geteuid().is_root() {
        // A process that cannot be looked up counts as running: its groups must stay.
        cgroup::remove_stale(&found, |pid| fs::exists(format!("/proc/{pid}")).unwrap_or(true));
    }
    // By the process id in the name, `remove_stale` recognizes the groups of spawners that have ended.
    let name = args.cgroup_root.clone().unwrap_or_else(|| format!("fnd-{}", std::process::id()));
    let tree = CgroupTree::open(&found, &name, block_device(&places.state))?;
    // An earlier spawner that was killed may have left processes in these groups.
    tree.kill_remaining(PATIENCE);
    Ok(tree)
}

/// Returns the whole disk that a directory is on, as `MAJOR:MINOR`; none for a file system without one.
fn block_device(dir: &std::path::Path) -> Option<String> {
    let device = fs::metadata(dir).ok()?.dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let entry = fs::canonicalize(format!("/sys/dev/block/{numbers}")).ok()?;
    // `io.max` accepts no partitions.
    let whole = if entry.join("partition").exists() { entry.parent()? } else { &entry };
    Some(fs::read_to_string(whole.join("dev")).ok()?.trim().to_owned())
}

fn signals() -> nix::Result<SignalFd> {
    orphans::adopt()?;
    let set = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD]);
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        crate::log!("failed to notify the service manager: {error}");
    }
}
