//! The loop: one event at a time, nothing waited for in between.

mod removing;
mod requests;
mod verdicts;

use crate::args::{Args, Meeting};
use crate::cgroup::{self, Tree};
use crate::clone::Child;
use crate::install::{Installer, Snapshot, Turn};
use crate::judge::{IN_FLIGHT_MAX, Judge, Ticket};
use crate::log::Failed as _;
use crate::meeting::{self, Door};
use crate::places::{self, Places};
use crate::policy::{self, Myself, problem};
use crate::poller::{Poller, Token};
use crate::protocol::{self, Channel, Frame};
use crate::reap;
use crate::sandbox::identity::Identity;
use crate::source::Sources;
use crate::uids::Uids;
use crate::workers::{Host, Outbox, Workers};
use fnd_core::frame::{
    Containment, Document, Hello, Install, Installed, PROTOCOL_MAX, PROTOCOL_MIN, Problem, Prune, Refused, Release,
    Reply, Request, SettingsRead, SpawnFailed, Welcome, decode, encode,
};
use fnd_core::ids::FunctionName;
use fnd_core::plan::{JudgeReply, JudgeRequest, Plan, Policy};
use fnd_core::wire::Bytes;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// Frames waiting for fnd above which no more requests are read: it has to read first.
const BACKLOG: usize = 1000;
/// How long after an install its copies are synced, all at once; none is synced alone.
const SYNC_AFTER: Duration = Duration::from_secs(3);
/// Helpers at once.
const HELPERS_MAX: usize = 16;
/// How long the end of everything is waited for at the very end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a helper does, and what follows.
#[derive(Debug)]
enum Task {
    /// Empties an invocation's `tmp`; then the rest goes and the request is answered.
    Empty(u32, String, Release),
    /// Removes directories that are root's; then the request is answered.
    Delete(u32, Vec<PathBuf>),
    /// Syncs the file system of the state directory.
    Sync,
}

/// Settings that were read: for which request, what is wrong with the files, whether they are all root's.
type Reload = (u32, Vec<Problem>, bool);

/// The spawner.
pub struct Spawner {
    args: Args,
    poller: Poller,
    listener: Option<OwnedFd>,
    connection: Option<Channel>,
    greeted: bool,
    signals: SignalFd,
    sources: Sources,
    uids: Uids,
    workers: Workers,
    judge: Judge,
    installer: Installer,
    policy: Option<Policy>,
    settings: Option<SettingsRead>,
    /// Those the judge was asked about.
    reloads: VecDeque<Reload>,
    helpers: BTreeMap<u64, (Child, Task)>,
    tasks: VecDeque<Task>,
    helper_count: u64,
    /// When what was installed is synced to the disk.
    sync_at: Option<Duration>,
    /// When what still runs is killed.
    stopping: Option<Duration>,
}

impl Spawner {
    /// Sets up everything.
    ///
    /// # Errors
    /// Why it can't run, for people.
    pub fn start(args: Args) -> Result<Self, String> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let myself = Myself::look();
        let places = Places::prepare(&args.state, &args.run, myself.root()).failed("prepare the state directory")?;
        let uids = Uids::open(&places.state.join("spawner/uids")).map_err(|error| chain(&error))?;
        let signals = signals().failed("block signals")?;
        let (tree, why) = cgroups(&args, &places);
        let containment =
            if tree.is_some() { Containment::Cgroup } else { crate::contain::without_cgroups(myself.root()) };
        if !why.is_empty() {
            crate::log!("limits of memory, processes, CPU and IO can't be enforced: {why}");
        }
        let poller = Poller::new().failed("make an epoll instance")?;
        poller.add(&signals, Token::Signals).failed("watch signals")?;
        let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("fnd")).filter(|fnd| fnd.exists());
        let fnd = args.fnd.clone().or(beside).unwrap_or_else(|| "/usr/sbin/fnd".into());
        let host = Host {
            places,
            tree,
            containment,
            zone: crate::environment::machine_zone(),
            best_effort: args.best_effort,
            myself: myself.clone(),
        };
        let mut spawner = Self {
            poller,
            listener: None,
            connection: None,
            greeted: false,
            signals,
            sources: Sources::new(args.functions.clone(), myself.clone()),
            uids,
            workers: Workers::new(host),
            judge: Judge::new(fnd, myself.root()),
            installer: Installer::default(),
            policy: None,
            settings: None,
            reloads: VecDeque::new(),
            helpers: BTreeMap::new(),
            tasks: VecDeque::new(),
            helper_count: 0,
            sync_at: None,
            stopping: None,
            args,
        };
        match meeting::open(&spawner.args.meeting).failed("open the socket")? {
            Door::Listener(listener) => {
                spawner.poller.add(&listener, Token::Listener).failed("listen")?;
                spawner.listener = Some(listener);
            }
            Door::Connected(socket) => spawner.connect(socket).failed("use the inherited socket")?,
        }
        spawner.reload(0);
        Ok(spawner)
    }

    /// Runs until told to stop.
    ///
    /// # Errors
    /// What broke the loop, for people.
    pub fn run(mut self) -> Result<(), String> {
        notify(&[sd_notify::NotifyState::Ready]);
        let result = self.serve();
        notify(&[sd_notify::NotifyState::Stopping]);
        self.workers.kill_all();
        match &self.workers.host().tree {
            Some(tree) => tree.clear(PATIENCE),
            // The inits have their parent's death as a signal; this only waits for them to have gone.
            None => drop(self.drain_running(crate::clock::now() + PATIENCE)),
        }
        result.failed("wait for events")
    }

    fn drain_running(&mut self, until: Duration) -> io::Result<()> {
        while self.workers.any_running() && crate::clock::now() < until {
            for token in self.poller.wait(Some(until.saturating_sub(crate::clock::now())))? {
                if let Token::Worker(_) | Token::Leaf(_) | Token::Launcher(_) | Token::LauncherEnd(_) = token {
                    self.handle(token);
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let now = crate::clock::now();
            self.workers.tick(now);
            self.install_some(now);
            self.talk_to_judge(now);
            if self.sync_at.is_some_and(|at| now >= at) {
                self.sync_at = None;
                self.tasks.push_back(Task::Sync);
            }
            self.start_helpers();
            if let Some(connection) = &self.connection {
                self.poller.change(connection, connection.waiting() <= BACKLOG, connection.waiting() > 0);
            }
            if let Some(kill_at) = self.stopping {
                if !self.workers.any_running() {
                    return Ok(());
                }
                if now >= kill_at {
                    self.workers.kill_all();
                    self.stopping = Some(now + Duration::from_secs(1));
                }
            }
            if self.connection.is_none() && self.listener.is_none() {
                return Ok(()); // fnd, whose child this is, ended
            }
            let busy = self.installer.has_work() && self.judge.in_flight() < IN_FLIGHT_MAX && self.policy.is_some();
            let deadlines =
                [self.workers.deadline(), self.judge.deadline(), self.stopping, self.sync_at, busy.then_some(now)];
            let timeout = deadlines.into_iter().flatten().min().map(|at| at.saturating_sub(crate::clock::now()));
            for token in self.poller.wait(timeout)? {
                self.handle(token);
            }
        }
    }

    fn handle(&mut self, token: Token) {
        let mut out = Outbox::new();
        match token {
            Token::Listener => self.accept(),
            Token::Connection => self.read_requests(),
            Token::Signals => self.signalled(),
            Token::Judge => {} // read before the next wait
            Token::Launcher(number) => self.workers.launcher_ready(number, &self.poller, &mut out),
            Token::LauncherEnd(number) => self.workers.launcher_ended(number, &self.poller, &mut out),
            Token::Worker(number) => self.workers.worker_ended(number, &self.poller, &mut out),
            Token::Leaf(number) => self.workers.leaf_changed(number, &self.poller, &mut out),
            Token::Oom(function) => self.workers.oom(function),
            Token::Helper(number) => self.helper_ended(number),
        }
        for (request, reply, descriptors) in out {
            self.reply(request, &reply, descriptors);
        }
    }

    fn signalled(&mut self) {
        let Ok(Some(signal)) = self.signals.read_signal() else { return };
        if matches!(self.args.meeting, Meeting::Inherited(_)) {
            return; // a terminal's Ctrl-C, a closed terminal or `kill` of the group reach fnd as well, and fnd decides
        }
        if signal.ssi_signo == Signal::SIGHUP as u32 {
            return self.reload(0);
        }
        if self.stopping.is_some() {
            self.workers.kill_all(); // asked twice
            return;
        }
        notify(&[sd_notify::NotifyState::Stopping]);
        let running = self.workers.running();
        crate::log!("stopping: {} running", running.len());
        for (worker, _) in &running {
            self.workers.term(*worker);
        }
        let grace = running.iter().map(|(_, grace)| *grace).max().unwrap_or_default();
        self.stopping = Some(crate::clock::now() + grace);
    }
}

fn cgroups(args: &Args, places: &Places) -> (Option<Tree>, String) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let found = cgroup::hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    if rustix::process::geteuid().is_root() {
        cgroup::remove_stale(&found, |pid| fs::exists(format!("/proc/{pid}")).unwrap_or(true));
    }
    let name = args.cgroup_root.clone().unwrap_or_else(|| format!("fnd-{}", std::process::id()));
    match Tree::open(&found, &name, block_device(&places.state)) {
        Ok(tree) => {
            tree.kill_left(PATIENCE);
            (Some(tree), String::new())
        }
        Err(why) => (None, why),
    }
}

/// Returns the whole disk a directory is on, `MAJOR:MINOR`; none for a file system without one.
fn block_device(dir: &std::path::Path) -> Option<String> {
    let device = fs::metadata(dir).ok()?.dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let entry = fs::canonicalize(format!("/sys/dev/block/{numbers}")).ok()?;
    // `io.max` takes no partitions.
    if entry.join("partition").exists() {
        Some(fs::read_to_string(entry.parent()?.join("dev")).ok()?.trim().to_owned())
    } else {
        Some(numbers)
    }
}

fn signals() -> nix::Result<SignalFd> {
    let set = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        crate::log!("failed to notify the service manager: {error}");
    }
}

/// Returns an error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
