//! A daemon that is made up: a function's name says how it ends. Also used by the tests of `fndctl`.

mod functions;
mod invocations;
mod node;
mod state;
mod streams;
mod uploads;

use fnd_core::api::LogLine;
use fnd_core::audit::AuditedCalls;
use fnd_core::records::InvocationFilter;
use fnd_core::supervisor::{Answer, ReplyTo, Submit};
use fnd_daemon::backend::{Answering, CallerLeft, LogQuery, NewEvent, Pending};
use fnd_daemon::buffers::Buffers;
use fnd_daemon::control::{ServerStop, listen, serve};
use fnd_daemon::http::connections::Connections;
use fnd_daemon::peer::PeerAccess;
use fnd_daemon::stream::StreamQuery;
use fnd_manifest::diagnostic::{Diagnostic, Place, Severity};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Ended well, with a result.
pub(crate) const ENDED: &str = "01934567-89ab-7def-8123-456789abcdef";
/// Failed, without a result.
pub(crate) const FAILED: &str = "01934567-89ab-7def-8123-00000000fa11";
/// Failed, with a result.
pub(crate) const FAILED_WITH_RESULT: &str = "01934567-89ab-7def-8123-00000000fa12";
pub(crate) const RUNNING: &str = "01934567-89ab-7def-8123-00000000face";
/// Cannot be read.
pub(crate) const BROKEN: &str = "01934567-89ab-7def-8123-00000000dead";
/// The id of no invocation.
pub(crate) const UNKNOWN: &str = "01934567-89ab-7def-8123-000000000404";

/// When what ran began, in Unix milliseconds: "5d ago" to a person, and a whole second.
pub(crate) static BEGAN: LazyLock<u64> = LazyLock::new(|| {
    let ago = u64::try_from(Duration::from_hours(5 * 24 + 1).as_millis()).unwrap();
    (fnd_daemon::clock::unix_ms() - ago) / 1000 * 1000
});

/// Calls that tests check afterwards.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) submitted: Option<Submit>,
    pub(crate) published: Vec<NewEvent>,
    pub(crate) filter: Option<InvocationFilter>,
    pub(crate) logs: Option<LogQuery>,
    pub(crate) stream: Option<StreamQuery>,
    pub(crate) audit: Vec<AuditedCalls>,
    /// Functions whose status file somebody waited for.
    pub(crate) waited_for: Vec<String>,
    /// How many requests to run there were.
    pub(crate) submits: usize,
    /// How many of their callers left before the answer.
    pub(crate) left: usize,
}

struct Hears(Arc<Mutex<Seen>>);

impl CallerLeft for Hears {
    fn left(&self, _: InvocationId, _: ReplyTo) {
        self.0.lock().unwrap().left += 1;
    }
}

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// Requests that are never answered.
    unanswered: RefCell<Vec<oneshot::Sender<Answer>>>,
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
    draining: RefCell<Vec<oneshot::Sender<bool>>>,
    /// The values of the state; the default has two.
    values: RefCell<Option<state::Values>>,
    /// How often the usage was read.
    readings: Cell<u64>,
    following: RefCell<Vec<mpsc::Sender<LogLine>>>,
    connections: OnceCell<Rc<Connections>>,
    buffers: OnceCell<Arc<Buffers>>,
}

fn id(text: &str) -> InvocationId {
    InvocationId::parse(text).unwrap()
}

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

fn diagnostic() -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        code: "unknown-runtime".to_owned(),
        file: Some("/etc/fnd/functions/invalid.toml".to_owned()),
        place: Some(Place {
            line: 7,
            column: 11,
            length: 8,
            excerpt: "runtime = \"pyhton\"".to_owned(),
        }),
        message: "unknown runtime `pyhton`".to_owned(),
        help: Some("known runtimes: `exec`, `node`, `python`".to_owned()),
        notes: Vec::new(),
    }
}

fn later<T: 'static>(value: T) -> Pending<T> {
    Box::pin(std::future::ready(value))
}

impl Fake {
    fn answer(&self, answer: Answer) -> Answering {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(answer);
        receiver.into()
    }
}

/// A server in a thread of its own; stops when dropped.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) seen: Arc<Mutex<Seen>>,
    stop: Option<ServerStop>,
    thread: Option<std::thread::JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::start_for(own())
    }

    pub(crate) fn start_for(access: PeerAccess) -> Self {
        Self::start_with(access, None)
    }

    /// Starts one whose budget for bodies and answers is this.
    pub(crate) fn start_with(access: PeerAccess, buffers: Option<Arc<Buffers>>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (ready, started) = std_mpsc::channel();
        let (path, shared) = (socket.clone(), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                let listener = listen::bind(&path, None).unwrap();
                let fake = Fake {
                    seen: shared,
                    buffers: buffers.map_or_else(OnceCell::new, OnceCell::from),
                    ..Fake::default()
                };
                let (server, stop) = serve(listener, Rc::new(fake), Rc::new(RefCell::new(access)));
                ready.send(stop).unwrap();
                server.await;
            });
        });
        let stop = started.recv().unwrap();
        Self {
            socket,
            seen,
            stop: Some(stop),
            thread: Some(thread),
            _directory: directory,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Everybody but the own user has no role.
pub(crate) fn own() -> PeerAccess {
    PeerAccess {
        own_uid: Some(nix_uid()),
        ..PeerAccess::default()
    }
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}
