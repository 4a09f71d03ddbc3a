//! One real fnd in a private root: starts it, adds files, sends requests, stops it.

use crate::client::Client;
use crate::ctl::{self, Run};
use crate::leftovers::Mark;
use crate::programs::{deno_for_functions, program, repository};
use crate::require::can_limit;
use crate::users::Users;
use crate::wait::{PATIENCE, wait_until};
use fnd_core::api::{NodeState, NodeStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How an fnd is started.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Text of `fnd.toml`; the path of deno is added to it.
    pub config: String,
    /// More arguments.
    pub arguments: Vec<String>,
    /// More variables of its environment.
    pub environment: Vec<(String, String)>,
    /// Function files that exist before it starts: path below the functions directory, content, mode.
    pub files: Vec<(String, Vec<u8>, u32)>,
    /// Whether its spawner is a process of its own, as under systemd, which outlives it.
    pub detached: bool,
}

impl Setup {
    /// Returns the set-up with a file that is there at the start.
    #[must_use]
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.as_bytes().to_vec(), 0o644));
        self
    }

    /// Returns the set-up with a spawner that outlives fnd.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Returns the set-up with a configuration.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }
}

/// A running fnd (with its spawner) and its private root.
#[derive(Debug)]
pub struct Fnd {
    /// The users of its functions, where it runs as root: kept until it is dropped, over every restart.
    users: Option<Users>,
    root: TempDir,
    mark: Mark,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// A program that starts fnd, with its arguments; empty: fnd is started directly.
    behind: Vec<String>,
    child: Option<Child>,
    /// Arguments of a detached spawner; none where fnd starts its own.
    spawner_arguments: Vec<String>,
    spawner: Option<Child>,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Fnd {
    /// Starts an fnd with the default set-up; returns when it answers.
    ///
    /// # Panics
    /// When it doesn't: the panic has its log.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&Setup::default())
    }

    /// Starts an fnd with this set-up; returns when it answers.
    ///
    /// # Panics
    /// When it doesn't: the panic has its log.
    #[track_caller]
    #[must_use]
    pub fn start_with(setup: &Setup) -> Self {
        let mut fnd = Self::prepare(setup);
        fnd.launch();
        fnd
    }

    /// Makes the private root without starting anything.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn prepare(setup: &Setup) -> Self {
        let root = tempfile::Builder::new()
            .prefix("fnd-test-")
            .tempdir()
            .expect("a temporary directory");
        // Functions run as users of their own and reach their code through this directory.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("its mode can be set");
        for directory in ["functions", "state", "run", "log"] {
            fs::create_dir(root.path().join(directory)).expect("a directory in it");
        }
        let mut config = setup.config.clone();
        if let Some(deno) = deno_for_functions(root.path()) {
            config += &format!(
                "\n[runtimes.deno]\ninterpreters = {{ \"2\" = {:?} }}\n",
                deno.display().to_string()
            );
        }
        fs::write(root.path().join("fnd.toml"), config).expect("the configuration is written");
        let users = nix::unistd::geteuid().is_root().then(Users::reserve);
        if let Some(users) = &users {
            Users::configure(&root.path().join("fnd.toml"), users.range());
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("fnd-test-{}-{number}", std::process::id());
        let at = |name: &str| root.path().join(name).display().to_string();
        let runtimes = repository().join("runtimes").display().to_string();
        let places = |run_dir: String| {
            let options = [
                ("--config", at("fnd.toml")),
                ("--functions", at("functions")),
                ("--state", at("state")),
                ("--runtimes", runtimes.clone()),
                ("--run-dir", run_dir),
            ];
            options
                .into_iter()
                .flat_map(|(option, value)| [option.to_owned(), value])
        };
        let mut arguments: Vec<String> = places(at("run")).collect();
        let mut spawner_arguments = Vec::new();
        let limits = if can_limit() {
            vec!["--cgroup-root".to_owned(), cgroup.clone()]
        } else {
            vec!["--best-effort-limits".to_owned()]
        };
        if setup.detached {
            let socket = at("run/spawner.sock");
            arguments.extend(["--spawner-socket".to_owned(), socket.clone()]);
            spawner_arguments.extend(places(at("run/spawner")));
            spawner_arguments.extend(limits);
            spawner_arguments.extend(["--socket".to_owned(), socket]);
            spawner_arguments.extend(["--fnd".to_owned(), program("fnd").display().to_string()]);
        } else {
            arguments.extend(limits);
        }
        arguments.extend(setup.arguments.iter().cloned());
        let mark = Mark {
            cgroup,
            root: root.path().to_path_buf(),
        };
        let fnd = Self {
            users,
            root,
            mark,
            arguments,
            environment: setup.environment.clone(),
            behind: Vec::new(),
            child: None,
            spawner_arguments,
            spawner: None,
        };
        for (path, content, mode) in &setup.files {
            fnd.drop_bytes(path, content, *mode);
        }
        fnd
    }

    /// Starts the prepared or stopped fnd again, on the same state; returns when it answers.
    ///
    /// # Panics
    /// When it doesn't: the panic has its log.
    #[track_caller]
    pub fn launch(&mut self) {
        self.launch_within(PATIENCE);
    }

    /// As [`Fnd::launch`], with a longer limit for many functions.
    ///
    /// # Panics
    /// When it doesn't answer within `limit`.
    #[track_caller]
    pub fn launch_within(&mut self, limit: Duration) {
        if let Some(status) = self.try_launch(limit) {
            panic!("fnd ended at its start: {status}\n{}", self.log());
        }
    }

    /// Starts the prepared or stopped fnd again; returns when it answers, or how it ended before.
    ///
    /// # Panics
    /// When it does neither within `limit`.
    #[track_caller]
    pub fn try_launch(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.begin_launch();
        self.wait_launched(limit)
    }

    /// Starts the prepared or stopped fnd again, without waiting until it answers.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn begin_launch(&mut self) {
        if !self.spawner_arguments.is_empty() && self.spawner.is_none() {
            self.launch_spawner();
        }
        self.child = Some(self.command().spawn().expect("fnd starts"));
    }

    /// Returns when the started fnd answers, or how it ended before.
    ///
    /// # Panics
    /// When it does neither within `limit`: the panic has its log.
    #[track_caller]
    pub fn wait_launched(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = crate::now();
        loop {
            if let Some(status) = self.ended() {
                self.child = None;
                return Some(status);
            }
            let answer = self.client().try_call("GET", "/healthz", &[], b"");
            if answer.is_ok_and(|answer| answer.status.is_success()) {
                return None;
            }
            let waited = start.elapsed();
            assert!(waited < limit, "waited {waited:?} for fnd to answer\n{}", self.log());
            crate::wait::pause();
        }
    }

    /// Lets the next starts run through a program that executes the command after its arguments; empty: directly.
    pub fn start_behind(&mut self, words: Vec<String>) {
        self.behind = words;
    }

    fn launch_spawner(&mut self) {
        let mut command = self.quiet(Command::new(program("fnd-spawner")));
        command.args(&self.spawner_arguments);
        // An fnd that ended leaves its socket.
        let socket = self.path("run/spawner.sock");
        let _ = fs::remove_file(&socket);
        self.spawner = Some(command.spawn().expect("fnd-spawner starts"));
        wait_until("fnd-spawner to listen", PATIENCE, || listens(&socket).then_some(()));
    }

    /// Returns the command that starts it, its log appended to a file.
    ///
    /// # Panics
    /// When the log cannot be opened.
    #[must_use]
    pub fn command(&self) -> Command {
        let fnd = program("fnd");
        let mut command = match self.behind.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(fnd);
                self.quiet(command)
            }
            None => self.quiet(Command::new(fnd)),
        };
        command.args(&self.arguments);
        command
    }

    /// Gives a command an empty environment, and the log to write to.
    fn quiet(&self, mut command: Command) -> Command {
        // The log has a directory of its own: fnd watches the parent of its functions directory, and would get an event
        // for each line.
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path("log/fnd.log"))
            .expect("the log opens");
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.path())
            .envs(self.environment.iter().cloned());
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        command
    }

    /// Returns the first and the last user that its functions may have.
    ///
    /// # Panics
    /// When the tests don't run as root.
    #[must_use]
    pub fn users(&self) -> (u32, u32) {
        self.users.as_ref().expect("functions have users of their own").range()
    }

    /// Returns a path in the private root.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Makes a directory in the private root that every user may write to.
    ///
    /// # Panics
    /// When it is there already.
    #[must_use]
    pub fn shared_directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory is made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is ours");
        path
    }

    /// Returns the path of a file in the functions directory.
    #[must_use]
    pub fn function_path(&self, name: &str) -> PathBuf {
        self.path("functions").join(name)
    }

    /// Returns the control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("run/control.sock")
    }

    /// Returns a caller of its API.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.socket())
    }

    /// Returns what it logged.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("log/fnd.log")).unwrap_or_default()).into_owned()
    }

    /// Returns its process id.
    ///
    /// # Panics
    /// When it is not running.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("fnd is running").id()
    }

    /// Returns the traces by which its processes and cgroups are found.
    #[must_use]
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Runs `fndctl` on its socket.
    #[must_use]
    pub fn ctl<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Run {
        self.ctl_with(arguments, b"")
    }

    /// Runs `fndctl` on its socket with standard input.
    #[must_use]
    pub fn ctl_with<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Run {
        ctl::fndctl(arguments, input, &[("FND_SOCKET", &self.socket())])
    }

    /// Installs a function file as a careful editor does: it is written beside the old one, then renamed.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_file(&self, path: &str, content: &str) {
        self.drop_bytes(path, content.as_bytes(), 0o644);
    }

    /// Installs an executable file.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_executable(&self, path: &str, content: &[u8]) {
        self.drop_bytes(path, content, 0o755);
    }

    /// Installs a file with any content and mode, and makes its directory.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_bytes(&self, path: &str, content: &[u8], mode: u32) {
        let target = self.function_path(path);
        let directory = target.parent().expect("a file has a directory");
        fs::create_dir_all(directory).expect("its directory is made");
        let name = target.file_name().expect("a file has a name").to_string_lossy();
        let temporary = directory.join(format!(".{name}.tmp"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)
            .expect("a file in the functions directory");
        file.write_all(content).expect("it is written");
        // The umask cuts the mode at creation, so the mode is set again.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).expect("its mode is set");
        fs::rename(&temporary, &target).expect("it is renamed into place");
    }

    /// Removes a file from the functions directory.
    ///
    /// # Panics
    /// When that fails.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.function_path(path)).expect("the function's file is removed");
    }

    /// Returns how fnd ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("an own child can be asked")
    }

    /// Sends fnd a signal.
    ///
    /// # Panics
    /// When it is not running.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid is a positive i32");
        kill(Pid::from_raw(pid), signal).expect("an own child can be signalled");
    }

    /// Waits for fnd's end, checks that no process and no cgroup remains, and returns the exit code.
    ///
    /// # Panics
    /// When it does not end in time, or leaves a process or a cgroup.
    #[track_caller]
    pub fn wait_stopped(&mut self) -> Option<i32> {
        self.wait_end_without(Mark::find)
    }

    /// As above for an end after which no spawner can clean up: no process may remain, but empty cgroups may.
    ///
    /// # Panics
    /// When it does not end in time, or leaves a process.
    #[track_caller]
    pub fn wait_died(&mut self) -> Option<i32> {
        self.wait_end_without(Mark::processes)
    }

    #[track_caller]
    fn wait_end_without(&mut self, leftovers: impl Fn(&Mark) -> Vec<String>) -> Option<i32> {
        let status = wait_until("fnd to end", PATIENCE, || self.ended());
        self.child = None;
        let start = crate::now();
        loop {
            let left = leftovers(&self.mark);
            if left.is_empty() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "fnd left {left:#?}");
            crate::wait::pause();
        }
    }

    /// Stops or kills fnd but not its detached spawner, and starts the next one.
    ///
    /// # Panics
    /// When it does not end in time, or well after SIGTERM, or the next does not answer.
    #[track_caller]
    pub fn replace(&mut self, signal: Signal) {
        self.leave(signal);
        self.launch();
    }

    /// Stops or kills fnd but not its detached spawner.
    ///
    /// # Panics
    /// When it does not end within 2 s of SIGTERM (times five, for busy machines), or not well.
    #[track_caller]
    pub fn leave(&mut self, signal: Signal) {
        assert!(self.spawner.is_some(), "only a detached spawner outlives fnd");
        self.signal(signal);
        let status = wait_until("fnd to end", PATIENCE / 2, || self.ended());
        self.child = None;
        if signal == Signal::SIGTERM {
            assert_eq!(status.code(), Some(0), "{}", self.log());
        }
    }

    /// Kills fnd, if it is still there, but not its detached spawner. Says whether it was.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn kill(&mut self) -> bool {
        let there = self.child.is_some() && self.ended().is_none();
        if there {
            self.signal(Signal::SIGKILL);
            wait_until("fnd to end", PATIENCE / 2, || self.ended());
        }
        self.child = None;
        there
    }

    /// Sends the detached spawner a signal.
    ///
    /// # Panics
    /// When there is none.
    pub fn signal_spawner(&self, signal: Signal) {
        let spawner = self.spawner.as_ref().expect("a detached spawner");
        let pid = i32::try_from(spawner.id()).expect("a pid is a positive i32");
        kill(Pid::from_raw(pid), signal).expect("an own child can be signalled");
    }

    /// Returns the process id of the detached spawner.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn spawner_pid(&self) -> u32 {
        self.spawner.as_ref().expect("a detached spawner").id()
    }

    /// Returns how the detached spawner ended, if it did.
    pub fn spawner_ended(&mut self) -> Option<ExitStatus> {
        self.spawner.as_mut()?.try_wait().expect("an own child can be asked")
    }

    /// Kills the detached spawner: all processes that it started end with it, and fnd ends by itself.
    ///
    /// # Panics
    /// When there is none, or a process stays.
    #[track_caller]
    pub fn kill_spawner(&mut self) {
        self.signal_spawner(Signal::SIGKILL);
        let mut spawner = self.spawner.take().expect("a detached spawner");
        spawner.wait().expect("an own child can be waited for");
        wait_until("fnd to end without its spawner", PATIENCE, || {
            (self.child.is_none() || self.ended().is_some()).then_some(())
        });
        self.child = None;
        let start = crate::now();
        while !self.mark.processes().is_empty() {
            let left = || self.mark.processes();
            assert!(
                start.elapsed() < PATIENCE,
                "a killed spawner left {:#?}\n{}",
                left(),
                self.log()
            );
            crate::wait::pause();
        }
    }

    /// Stops the detached spawner with SIGTERM; it ends running workers.
    ///
    /// # Panics
    /// When it does not end well, or leaves something.
    #[track_caller]
    pub fn stop_spawner(&mut self) {
        self.signal_spawner(Signal::SIGTERM);
        let mut spawner = self.spawner.take().expect("a detached spawner");
        let status = wait_until("fnd-spawner to end", PATIENCE, || {
            spawner.try_wait().expect("an own child can be asked")
        });
        assert!(status.success(), "{status}\n{}", self.log());
        wait_until("nothing to be left", PATIENCE, || {
            self.mark.find().is_empty().then_some(())
        });
    }

    /// Stops fnd as Ctrl-C does: running work is finished first.
    ///
    /// # Panics
    /// When it does not end well, or leaves something.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait_stopped(), Some(0), "{}", self.log());
    }

    /// Stops fnd at once: running work is killed.
    ///
    /// # Panics
    /// When it does not end, or leaves something.
    #[track_caller]
    pub fn stop_now(&mut self) {
        self.signal(Signal::SIGTERM);
        // Signals are not queued: two at once count as one.
        wait_until("fnd to have seen the first signal", PATIENCE, || {
            if self.ended().is_some() {
                return Some(());
            }
            let answer = self.client().try_call("GET", "/v1/status", &[], b"").ok()?;
            (answer.json::<NodeStatus>().state != NodeState::Running).then_some(())
        });
        if self.ended().is_none() {
            self.signal(Signal::SIGTERM);
        }
        self.wait_stopped();
    }

    /// Kills fnd with SIGKILL, like a crash, and returns when no process of it remains.
    ///
    /// # Panics
    /// When something is.
    #[track_caller]
    pub fn crash(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_stopped();
    }

    /// Ends the test: stops fnd and checks that nothing remains.
    ///
    /// # Panics
    /// As [`stop`](Self::stop).
    #[track_caller]
    pub fn finish(mut self) {
        if self.spawner.is_some() {
            self.leave(Signal::SIGTERM);
            self.stop_spawner();
        } else {
            self.stop();
        }
    }
}

impl Drop for Fnd {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the daemon saw")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of fnd\n{}--- end of the log", self.log());
        }
        for mut child in self.child.take().into_iter().chain(self.spawner.take()) {
            // The test failed, and its own assertion says why; this only cleans up the machine.
            let _ = child.kill();
            let _ = child.wait();
            let start = crate::now();
            while !self.mark.processes().is_empty() && start.elapsed() < PATIENCE / 4 {
                crate::wait::pause();
            }
        }
        self.mark.sweep();
        remove_read_only(self.root.path());
    }
}

/// Makes directories below writable, so that the temporary directory can be removed: versions are installed read-only.
fn remove_read_only(directory: &Path) {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    // An error shows when the directory is removed.
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_read_only(&entry.path());
        }
    }
}

/// Returns whether a process listens on a socket; the file exists earlier.
fn listens(socket: &Path) -> bool {
    /// `__SO_ACCEPTCON` among the flags of `/proc/net/unix`, proc_pid_net(5).
    const LISTENS: &str = "00010000";
    let sockets = fs::read_to_string("/proc/net/unix").expect("the sockets of the machine are listed");
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.nth(3) == Some(LISTENS) && words.last().is_some_and(|path| Path::new(path) == socket)
    })
}
