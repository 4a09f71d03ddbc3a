//! A real server of NATS for tests: on a free port, with a store in a directory of its own. It can be stopped, killed,
//! held and started again on the same port and the same store, as a server that people restart.
//!
//! Files:
//! - `client`: what a test asks the server
//! - `forwarder`: a link to the server that can be held, delayed and cut
//! - `publisher`: a program that publishes without an end

mod client;
mod forwarder;
mod publisher;

pub use client::{NatsClient, Published};
pub use forwarder::{Forwarder, Way};
pub use publisher::Publisher;

use crate::programs;
use crate::wait::{PATIENCE, pause, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a server has to listen: it takes some ten milliseconds, so that a port that another program has taken shows
/// soon.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
/// How often a start is tried with another port.
const TRIES: u32 = 5;

/// A server. It is killed when it is dropped.
#[derive(Debug)]
pub struct NatsServer {
    program: PathBuf,
    root: TempDir,
    port: u16,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts the server that set-up brought.
    ///
    /// # Panics
    /// When there is none (`require!(nats)`), or it does not listen.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts it with more lines of configuration.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[track_caller]
    #[must_use]
    pub fn start_with(more: &str) -> Self {
        let program = programs::nats().expect("a test that needs nats-server says so");
        Self::start_program(program, more)
    }

    /// Starts the oldest server that fnd works with.
    ///
    /// # Panics
    /// When there is none (`require!(nats_floor)`), or it does not listen.
    #[track_caller]
    #[must_use]
    pub fn start_floor() -> Self {
        let program = programs::nats_floor().expect("a test that needs an old nats-server says so");
        Self::start_program(program, "")
    }

    #[track_caller]
    fn start_program(program: PathBuf, more: &str) -> Self {
        let root = tempfile::Builder::new()
            .prefix("fnd-test-nats-")
            .tempdir()
            .expect("a temporary directory");
        fs::write(root.path().join("more.conf"), more).expect("its configuration is written");
        let mut server = Self {
            program,
            root,
            port: 0,
            child: None,
        };
        for _ in 0..TRIES {
            server.port = free_port();
            // The port may be taken between two lines of this program; then the server ends.
            if server.try_launch() {
                return server;
            }
        }
        panic!("nats-server does not start:\n{}", server.log());
    }

    /// Starts the stopped server again, on its port and its store.
    ///
    /// # Panics
    /// When it does not listen.
    #[track_caller]
    pub fn launch(&mut self) {
        // Its port may still be in use for a moment by connections of the server before it.
        wait_until("nats-server to listen again", PATIENCE, || {
            self.try_launch().then_some(())
        });
    }

    fn try_launch(&mut self) -> bool {
        assert!(self.child.is_none(), "the server runs already");
        let at = |name: &str| self.root.path().join(name);
        let config = format!(
            "listen: \"127.0.0.1:{}\"\nserver_name: \"test-{}\"\njetstream {{ store_dir: {:?} }}\n\
             include \"more.conf\"\n",
            self.port,
            self.port,
            at("store").display().to_string()
        );
        fs::write(at("nats.conf"), config).expect("its configuration is written");
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(at("nats.log"))
            .expect("its log opens");
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(at("nats.conf"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn()
            .expect("nats-server starts");
        self.child = Some(child);
        let start = crate::now();
        while start.elapsed() < LISTENS_WITHIN {
            if self.has_ended() {
                self.child = None;
                return false;
            }
            if self.listens() {
                return true;
            }
            pause();
        }
        panic!("nats-server does not listen:\n{}", self.log());
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().expect("an own child can be asked").is_some())
    }

    /// Says whether it greets a connection.
    fn listens(&self) -> bool {
        let Ok(mut connection) = TcpStream::connect_timeout(&self.address(), Duration::from_secs(1)) else {
            return false;
        };
        let mut greeting = [0; 5];
        let read = connection
            .set_read_timeout(Some(Duration::from_secs(1)))
            .and_then(|()| connection.read_exact(&mut greeting));
        read.is_ok() && &greeting == b"INFO "
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a path in its directory, where a test puts certificates and keys of its own.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Returns what it logged.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("nats.log")).unwrap_or_default()).into_owned()
    }

    /// Returns a client with a connection of its own.
    ///
    /// # Panics
    /// When the server does not take it.
    #[track_caller]
    #[must_use]
    pub fn client(&self) -> NatsClient {
        NatsClient::connect(&self.url())
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server runs");
        let pid = i32::try_from(child.id()).expect("a pid is a positive i32");
        kill(Pid::from_raw(pid), signal).expect("an own child can be signalled");
    }

    /// Stops it in order.
    ///
    /// # Panics
    /// When it does not run, or does not end.
    #[track_caller]
    pub fn stop(&mut self) {
        self.end(Signal::SIGTERM);
    }

    /// Kills it, as a crash does.
    ///
    /// # Panics
    /// As [`stop`](Self::stop).
    #[track_caller]
    pub fn kill(&mut self) {
        self.end(Signal::SIGKILL);
    }

    #[track_caller]
    fn end(&mut self, signal: Signal) {
        self.signal(signal);
        wait_until("nats-server to end", PATIENCE, || self.has_ended().then_some(()));
        self.child = None;
    }

    /// Holds it: its connections stay open, and it says nothing.
    ///
    /// # Panics
    /// When it does not run.
    pub fn hold(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }
}

/// Returns a port of the loopback address that was free a moment ago. The server stays on it over a restart, so it
/// cannot choose one itself.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on the loopback address");
    listener.local_addr().expect("a bound socket has an address").port()
}

impl Drop for NatsServer {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the server saw")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.lines().rev().take(40).collect::<Vec<_>>();
            let tail: Vec<_> = tail.into_iter().rev().collect();
            eprintln!("--- end of the log of nats-server\n{}\n---", tail.join("\n"));
        }
        if let Some(mut child) = self.child.take() {
            // A killed process that is held ends as well (signal(7)). An error: it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
