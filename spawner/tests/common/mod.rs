//! A spawner with a state of its own, which a test drives as fnd does.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test program uses its part of this, and a panic is how a test says no"
)]

mod users;

use fnd_spawner::clock::now;
use fnd_spawner::protocol::Channel;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{
    Exited, Hello, Install, Installed, PROTOCOL_MAX, PROTOCOL_MIN, Problem, Reply, Request, SettingsRead, Spawn,
    Spawned, Welcome, decode, encode,
};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
pub use users::Users;

/// Deadline of every wait: far longer than needed, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Harness {
    /// The users of its functions, which no other test has meanwhile.
    pub users: Users,
    pub dir: tempfile::TempDir,
    pub child: Child,
    pub socket: Option<Channel>,
    pub welcome: Welcome,
    requests: u32,
    worker: u64,
    pending: VecDeque<(u32, Reply, VecDeque<OwnedFd>)>,
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says whether the tests run as root.
pub fn root() -> bool {
    met("root", is_root())
}

/// Says whether the tests run as root and can make cgroups.
pub fn privileged() -> bool {
    root() && met("cgroup", can_make_cgroups())
}

fn can_make_cgroups() -> bool {
    // Its own name, since other tests may check at the same moment.
    let probe = format!("fnd-probe-{}", std::process::id());
    ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].into_iter().any(|tree| {
        let dir = Path::new(tree).join(&probe);
        fs::create_dir(&dir).is_ok_and(|()| fs::remove_dir(&dir).is_ok())
    })
}

/// Reports that a test is skipped because a need is not met. `FND_REQUIRE=root,cgroup` makes that a failure. The skip
/// is added to the list in `FND_SKIP_LOG`.
fn met(need: &str, there: bool) -> bool {
    if there {
        return true;
    }
    let required = std::env::var("FND_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|word| word == need), "FND_REQUIRE asks for {need}");
    let skip = format!("{}: needs {need}", std::thread::current().name().unwrap_or("a test"));
    eprintln!("skipped: {skip}");
    if let Some(path) = std::env::var_os("FND_SKIP_LOG") {
        let list = fs::OpenOptions::new().append(true).create(true).open(path);
        // In one write, since other tests append at the same time. An error is ignored: the skip was printed already.
        let _ = list.and_then(|mut list| list.write_all(format!("{skip}\n").as_bytes()));
    }
    false
}

fn fake_judge() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().unwrap().parent().unwrap().join("examples/fake_judge")
}

#[derive(Default)]
pub struct Options {
    /// Runs as this uid, without cgroups.
    pub uid: Option<u32>,
    /// That user may not make user namespaces.
    pub no_namespaces: bool,
    pub best_effort: bool,
    pub config: &'static str,
    /// Listens on a socket, instead of being a child with an inherited socket.
    pub listen: bool,
    /// Has a second functions directory, `uploads`.
    pub uploads: bool,
    /// First and last user, instead of those that the harness chooses.
    pub range: Option<(u32, u32)>,
    /// A change of the directory before the spawner starts; it gets the first user of the range.
    pub prepare: Option<fn(&Path, u32)>,
    /// Keeps names of users in the directory `userdb`.
    pub userdb: bool,
    /// Has a mount namespace of its own, as in its unit.
    pub private_mounts: bool,
}

pub enum Outcome {
    Installed(Installed),
    Refused(Vec<Problem>, Option<Bytes>),
}

impl Harness {
    pub fn start() -> Self {
        Self::with(&Options::default())
    }

    pub fn with(options: &Options) -> Self {
        let (harness, settings) = Self::try_with(options);
        assert!(settings.applied, "{:?}", settings.problems);
        harness
    }

    /// Starts a spawner that may refuse its configuration; returns its answer about that.
    pub fn try_with(options: &Options) -> (Self, SettingsRead) {
        let dir = tempfile::Builder::new().prefix("fnd-spawner-test").tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        for name in ["functions", "etc"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("etc/fnd.toml"), options.config).unwrap();
        let users = Users::reserve();
        Users::configure(&dir.path().join("etc"), options.range.unwrap_or_else(|| users.range()));
        let (theirs, ours) = Channel::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fnd-spawner"));
        let path = |name: &str| dir.path().join(name);
        if options.private_mounts {
            command = Command::new("unshare");
            command.args(["--mount", "--propagation", "slave", env!("CARGO_BIN_EXE_fnd-spawner"), "--private-mounts"]);
        }
        if let Some(uid) = options.uid {
            for name in ["", "functions", "etc", "etc/fnd.toml"] {
                std::os::unix::fs::chown(path(name), Some(uid), Some(uid)).unwrap();
            }
            // Copies, since that user may have no access to the build directory.
            fs::copy(env!("CARGO_BIN_EXE_fnd-spawner"), path("fnd-spawner")).unwrap();
            fs::copy(fake_judge(), path("fake_judge")).unwrap();
            if options.no_namespaces {
                // Nobody may make a user namespace below another root (user_namespaces(7), EPERM).
                fs::create_dir(path("root")).unwrap();
                let chroot = format!("mount --rbind / \"$1\" && exec chroot --userspec={uid}:{uid} --groups= \"$@\"");
                command = Command::new("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-c", &chroot, "sh"]);
                command.arg(path("root")).arg(path("fnd-spawner"));
            } else {
                command = Command::new(path("fnd-spawner"));
                command.uid(uid).gid(uid);
            }
            command.arg("--fnd").arg(path("fake_judge"));
        } else {
            command.arg("--fnd").arg(fake_judge());
        }
        if let Some(prepare) = options.prepare {
            prepare(dir.path(), users.first());
        }
        command.arg("--functions").arg(path("functions"));
        if options.uploads {
            fs::create_dir(path("uploads")).unwrap();
            command.arg("--functions").arg(path("uploads"));
        }
        command.arg("--config").arg(path("etc/fnd.toml")).arg("--runtimes").arg(path("runtimes"));
        command.arg("--state").arg(path("state")).arg("--run-dir").arg(path("run"));
        if options.userdb {
            command.arg("--userdb").arg(path("userdb"));
        }
        if options.best_effort {
            command.arg("--best-effort-limits");
        }
        // A copy without close-on-exec; the child gets its number as an argument.
        let passed = rustix::io::dup(theirs.as_fd()).unwrap();
        if options.listen {
            command.arg("--socket").arg(path("spawner.sock"));
        } else {
            command.arg("--socket-fd").arg(passed.as_raw_fd().to_string());
        }
        let child = command.spawn().unwrap();
        drop((theirs, passed));
        let ours = if options.listen { connect(&path("spawner.sock")) } else { ours };
        let mut harness = Self {
            users,
            dir,
            child,
            socket: Some(Channel::new(ours)),
            welcome: Welcome {
                protocol: 0,
                version: String::new(),
                containment: fnd_wire::frame::Containment::Cgroup,
                layout: String::new(),
                missing: Vec::new(),
                next_worker: WorkerId(1),
                functions_dirs: Vec::new(),
                memory: fnd_wire::frame::MemoryGroups::None,
            },
            requests: 0,
            worker: 0,
            pending: VecDeque::new(),
        };
        let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MAX }), Vec::new());
        let (Reply::Welcome(welcome), _) = harness.answer(number) else { panic!("no welcome") };
        harness.welcome = welcome;
        let Reply::Settings(settings) = harness.wait(|_, reply| matches!(reply, Reply::Settings(_))).0 else {
            panic!()
        };
        (harness, settings)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("functions").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Connects as the next fnd. The old connection is closed first, like that of an fnd that has ended.
    pub fn reconnect(&mut self) {
        self.socket = None;
        self.socket = Some(Channel::new(connect(&self.path("spawner.sock"))));
    }

    pub fn send(&mut self, request: &Request, descriptors: Vec<OwnedFd>) -> u32 {
        self.requests += 1;
        self.socket.as_mut().unwrap().send(&encode(self.requests, request), descriptors).unwrap();
        self.requests
    }

    /// Returns the first reply that matches, with its descriptors; other replies are kept.
    pub fn wait(&mut self, fits: impl Fn(u32, &Reply) -> bool) -> (Reply, VecDeque<OwnedFd>) {
        let deadline = now() + LIMIT;
        loop {
            if let Some(index) = self.pending.iter().position(|(number, reply, _)| fits(*number, reply)) {
                let (_, reply, descriptors) = self.pending.remove(index).unwrap();
                return (reply, descriptors);
            }
            let remaining = deadline.saturating_sub(now());
            assert!(!remaining.is_zero(), "no such reply within {LIMIT:?}; got {:?}", self.pending);
            let socket = self.socket.as_mut().unwrap();
            let timeout = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            let mut polled = [rustix::event::PollFd::new(&*socket, rustix::event::PollFlags::IN)];
            if rustix::event::poll(&mut polled, Some(&timeout)).unwrap() == 0 {
                continue;
            }
            let frame = socket.receive().expect("the spawner ended").unwrap();
            let (number, reply) = decode(&frame.bytes).unwrap();
            self.pending.push_back((number, reply, frame.descriptors));
        }
    }

    pub fn answer(&mut self, number: u32) -> (Reply, VecDeque<OwnedFd>) {
        self.wait(|found, _| found == number)
    }

    pub fn try_install(&mut self, source: &str, sidecar: Option<&str>) -> Outcome {
        let directory_form = self.path("functions").join(source).is_dir();
        let name = source.split('.').next().unwrap();
        let install = Install {
            directory: 0,
            function: FunctionName::new(name).unwrap(),
            source: source.to_owned(),
            sidecar: sidecar.map(str::to_owned),
            directory_form,
        };
        self.ask_to_install(install)
    }

    /// Requests an installation with any values, as a hostile fnd may.
    pub fn ask_to_install(&mut self, install: Install) -> Outcome {
        let number = self.send(&Request::Install(install), Vec::new());
        match self.answer(number).0 {
            Reply::Installed(installed) => Outcome::Installed(installed),
            Reply::Refused(refused) => Outcome::Refused(refused.problems, refused.document),
            other => panic!("{other:?}"),
        }
    }

    /// Writes a function with its manifest lines and installs it.
    pub fn install(&mut self, source: &str, text: &str, manifest: &str) -> Installed {
        self.write(source, text);
        let sidecar = format!("{}.toml", source.split('.').next().unwrap());
        self.write(&sidecar, manifest);
        match self.try_install(source, Some(&sidecar)) {
            Outcome::Installed(installed) => installed,
            Outcome::Refused(problems, _) => panic!("{problems:?}"),
        }
    }

    pub fn refusal(&mut self, source: &str, manifest: Option<&str>) -> String {
        match self.try_install(source, manifest) {
            Outcome::Refused(problems, _) => {
                problems.iter().map(|p| format!("{}: {} ({})\n", p.file, p.message, p.help)).collect()
            }
            Outcome::Installed(installed) => panic!("{installed:?}"),
        }
    }

    /// Checks that the loop of the spawner is not held up: it waits until another request is answered.
    pub fn is_served(&mut self) {
        let number = self.send(&Request::Term(WorkerId(1 << 40)), Vec::new());
        assert_eq!(self.answer(number).0, Reply::Done);
    }

    pub fn release(&mut self, installed: &Installed, invocation: InvocationId) -> Reply {
        let release = fnd_wire::frame::Release { function: installed.id, invocation };
        let number = self.send(&Request::Release(release), Vec::new());
        self.answer(number).0
    }

    pub fn order(&mut self, installed: &Installed, input: Option<&[u8]>, given: &[(&str, &str)]) -> (u64, u32) {
        let invocation = InvocationId(u128::from(self.worker) + 1);
        self.order_in(installed, invocation, (input, None), given)
    }

    pub fn order_in(
        &mut self,
        installed: &Installed,
        invocation: InvocationId,
        files: (Option<&[u8]>, Option<&[u8]>),
        given: &[(&str, &str)],
    ) -> (u64, u32) {
        self.worker += 1;
        let list: Vec<(String, Bytes)> =
            given.iter().map(|(n, v)| ((*n).to_owned(), Bytes(v.as_bytes().to_vec()))).collect();
        let mut descriptors = Vec::new();
        for bytes in [files.0, files.1].into_iter().flatten() {
            let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            file.write_all(bytes).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            descriptors.push(file.into());
        }
        let spawn = Spawn {
            worker: WorkerId(self.worker),
            function: installed.id,
            version: installed.version,
            invocation,
            environment: list,
            input: files.0.is_some(),
            previous: files.1.is_some(),
            lasts_ms: 0,
            record: Bytes::default(),
        };
        let number = self.send(&Request::Spawn(spawn), descriptors);
        (self.worker, number)
    }

    /// Returns the number of the next worker.
    pub fn next_worker(&self) -> u64 {
        self.worker + 1
    }

    /// Orders an attempt whose standard input is a pipe.
    pub fn order_pipe(&mut self, installed: &Installed, input: OwnedFd) -> (u64, u32) {
        self.worker += 1;
        let spawn = Spawn {
            worker: WorkerId(self.worker),
            function: installed.id,
            version: installed.version,
            invocation: InvocationId(u128::from(self.worker)),
            environment: Vec::new(),
            input: true,
            previous: false,
            lasts_ms: 0,
            record: Bytes::default(),
        };
        let number = self.send(&Request::Spawn(spawn), vec![input]);
        (self.worker, number)
    }

    pub fn spawned(&mut self, number: u32) -> (Spawned, VecDeque<OwnedFd>) {
        match self.answer(number) {
            (Reply::Spawned(spawned), descriptors) => (spawned, descriptors),
            (other, _) => panic!("{other:?}"),
        }
    }

    pub fn exited(&mut self, worker: u64) -> Exited {
        let fits = |_, reply: &Reply| matches!(reply, Reply::Exited(exited) if exited.worker.0 == worker);
        let (Reply::Exited(exited), _) = self.wait(fits) else { unreachable!() };
        // A spawner that got a signal may have ended by now.
        let frame = encode(0, &Request::Acknowledge(WorkerId(worker)));
        let _ = self.socket.as_mut().unwrap().send(&frame, Vec::new());
        exited
    }

    /// Runs one attempt to its end.
    pub fn run(&mut self, installed: &Installed, input: Option<&[u8]>, given: &[(&str, &str)]) -> Run {
        let (worker, number) = self.order(installed, input, given);
        self.finish(worker, number)
    }

    pub fn finish(&mut self, worker: u64, number: u32) -> Run {
        let (_, mut descriptors) = self.spawned(number);
        let stdout = text(descriptors.pop_front().unwrap());
        let stderr = text(descriptors.pop_front().unwrap());
        let exited = self.exited(worker);
        Run { exited, stdout, stderr, result: text(descriptors.pop_front().unwrap()) }
    }

    /// Closes the connection and waits for the spawner's end.
    pub fn stop(mut self) -> PathBuf {
        self.socket = None;
        assert!(self.child.wait().unwrap().success());
        self.dir.path().to_owned()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.socket = None;
        // A spawner that listens needs a signal; a child of fnd ends with the connection.
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// Connects to a listening spawner as soon as it listens.
pub fn connect(path: &Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, socket};
    let address = SocketAddrUnix::new(path).unwrap();
    let mut found = None;
    until("the spawner listens", || {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        let connected = rustix::net::connect(&socket, &address).is_ok();
        found = connected.then_some(socket);
        connected
    });
    found.unwrap()
}

pub struct Run {
    pub exited: Exited,
    pub stdout: String,
    pub stderr: String,
    pub result: String,
}

pub fn text(fd: OwnedFd) -> String {
    let mut bytes = Vec::new();
    File::from(fd).read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now() + LIMIT;
    while !holds() {
        assert!(now() < deadline, "not within {LIMIT:?}: {what}");
        // There is no event to wait for: the condition concerns processes that are not children of the test.
        #[expect(clippy::disallowed_methods, reason = "see above")]
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose environment or command line names this directory.
pub fn processes_of(dir: &Path) -> Vec<String> {
    let needle = dir.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let alive = fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        let names = ["cmdline", "environ"].iter().any(|file| {
            fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|text| text.windows(needle.len()).any(|window| window == needle))
        });
        if alive && names && pid != std::process::id() {
            found.push(format!("{pid} {}", fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim()));
        }
    }
    found
}
