//! One real fnd in a private root: starts it, adds files, sends requests, stops it.
//!
//! Files:
//! - `end`: stops fnd and its spawner, and checks that nothing remains
//! - `files`: adds and removes files of functions

mod end;
mod files;

use crate::client::Client;
use crate::ctl::{self, Run};
use crate::leftovers::Mark;
use crate::programs::{deno, program, runtimes};
use crate::require::can_limit;
use crate::users::Users;
use crate::wait::{PATIENCE, wait_until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How an fnd is started.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Text of `fnd.toml`; the path of deno is added to it, and without `[sandbox]` the profile `off`.
    pub config: String,
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
        if let Some(deno) = deno() {
            config += &format!(
                "\n[runtimes.deno]\ninterpreters = {{ \"2\" = {:?} }}\n",
                deno.display().to_string()
            );
        }
        // Most functions of the tests write to files of the test, which the sandbox hides.
        if !config.contains("[sandbox]") {
            config += "\n[sandbox]\nprofile = \"off\"\n";
        }
        fs::write(root.path().join("fnd.toml"), config).expect("the configuration is written");
        let users = nix::unistd::geteuid().is_root().then(Users::reserve);
        if let Some(users) = &users {
            Users::configure(&root.path().join("fnd.toml"), users.range());
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("fnd-test-{}-{number}", std::process::id());
        let at = |name: &str| root.path().join(name).display().to_string();
        let runtimes = runtimes().display().to_string();
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
            // As the unit of fnd 0.1 does: fnd then becomes the helper.
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
