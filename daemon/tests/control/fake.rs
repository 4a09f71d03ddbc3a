//! A daemon that is made up: a function's name says how it ends. Also used by the tests of `fndctl`.

use fnd_core::api::{
    DeadLetter, DeadLetterList, FunctionChange, FunctionDetail, FunctionStatus, InvocationList, InvocationView,
    LogLine, NodeStatus, ReloadReport, SizeView, ValidateReport, ValidateRequest,
};
use fnd_core::diagnostic::{Diagnostic, Place, Severity};
use fnd_core::happening::{Kind, Seq, StreamEvent};
use fnd_core::manifest::Mode;
use fnd_core::outcome::{Reason, Skip, State, Trigger};
use fnd_core::record::{InvocationRecord, Response, RunResult};
use fnd_core::runtime::{RuntimeSummary, RuntimeVersion};
use fnd_core::supervisor::{Answer, FunctionState, Rejection, ReplyTo};
use fnd_daemon::buffers::Buffers;
use fnd_daemon::control::backend::{
    Answering, Backend, Bounds, Changes, Failure, FunctionFilter, InvocationFilter, Leaving, LogLines, LogQuery,
    PassedOn, Pending, Pieces, Repeated, SubmitRequest,
};
use fnd_daemon::control::peer::Access;
use fnd_daemon::control::{Stop, limits, listen, serve};
use fnd_daemon::http::connections::Connections;
use fnd_daemon::metrics::Form;
use fnd_daemon::stream::StreamQuery;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::cell::{OnceCell, RefCell};
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
/// Still running.
pub(crate) const RUNNING: &str = "01934567-89ab-7def-8123-00000000face";
/// Cannot be read.
pub(crate) const BROKEN: &str = "01934567-89ab-7def-8123-00000000dead";
/// Nobody knows it.
pub(crate) const UNKNOWN: &str = "01934567-89ab-7def-8123-000000000404";

/// What tests want to know afterwards.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) submitted: Option<SubmitRequest>,
    pub(crate) filter: Option<InvocationFilter>,
    pub(crate) logs: Option<LogQuery>,
    pub(crate) stream: Option<StreamQuery>,
    /// Functions whose status file somebody waited for.
    pub(crate) waited_for: Vec<String>,
    /// How many requests to run there were.
    pub(crate) submits: usize,
    /// How many of their callers left before the answer.
    pub(crate) left: usize,
}

struct Hears(Arc<Mutex<Seen>>);

impl Leaving for Hears {
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

const NAMES: [&str; 16] = [
    "bad-answer",
    "binary",
    "cancelled",
    "disabled",
    "fails",
    "full",
    "hello",
    "invalid",
    "oom",
    "ops/backup",
    "slow",
    "stopping",
    "stuck",
    "teapot",
    "text",
    "void",
];

pub(crate) fn record(function: &str, reason: Reason, message: &str, result: Option<RunResult>) -> InvocationRecord {
    InvocationRecord {
        id: id(ENDED),
        function: name(function),
        trigger: Trigger::Manual,
        state: reason.final_state(),
        accepted_ms: 1_795_248_000_000,
        started_ms: Some(1_795_248_000_010),
        ended_ms: Some(1_795_248_000_123),
        attempts: 1,
        polls: 0,
        reason: Some(reason),
        message: message.to_owned(),
        exhausted: None,
        next_attempt_ms: None,
        version: Some(Version([0xab; 32])),
        result,
    }
}

/// What a function can choose beside the bytes.
fn chosen(status: u16) -> Arc<Response> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Arc::new(Response {
        content_type: Some("text/html".to_owned()),
        status: Some(status),
        headers: vec![
            header("x-name", "value"),
            header("connection", "close"),
            header("fnd-invocation", "forged"),
        ],
    })
}

/// When what failed began: "5d ago" to whoever asks, and the same whenever it is asked.
static STARTED: LazyLock<String> = LazyLock::new(|| {
    let ago = Duration::from_hours(5 * 24 + 1);
    fnd_core::instant::text(fnd_daemon::clock::unix_ms() - u64::try_from(ago.as_millis()).unwrap())
});

pub(crate) fn status(function: &str) -> FunctionStatus {
    let ran = function == "fails";
    FunctionStatus {
        status: if ran { "failed" } else { "pending" }.to_owned(),
        message: if ran { "no such host \u{1b}[31mdb1" } else { "" }.to_owned(),
        timestamp: "2026-11-21T08:00:00.123Z".to_owned(),
        function: name(function),
        version: Some(Version([0xab; 32])),
        state: if function == "invalid" {
            FunctionState::Invalid
        } else {
            FunctionState::Ready
        },
        invocation: ran.then(|| id(FAILED)),
        trigger: ran.then_some(Trigger::Load),
        attempt: ran.then_some(1),
        poll: ran.then_some(0),
        reason: ran.then_some(Reason::Exit(3)),
        exit_code: ran.then_some(3),
        started_at: ran.then(|| STARTED.clone()),
        duration_ms: ran.then_some(12.3),
        cpu_ms: ran.then_some(8.1),
        memory_peak_bytes: ran.then_some(9_437_184),
        memory_bytes: None,
        dead_letters: 0,
        next_attempt_at: None,
        next_run_at: None,
        result: None,
        runs: u64::from(ran) * 1234,
        failures: u64::from(ran) * 12,
        error: (function == "invalid").then(|| "unknown runtime `pyhton`".to_owned()),
        runtime: "python 3.11".to_owned(),
        labels: [("team".to_owned(), if ran { "web" } else { "ops" }.to_owned())].into(),
        p50_ms: ran.then_some(12.3),
        p99_ms: ran.then_some(1204.0),
        running: 0,
        queued: 0,
    }
}

fn view(wanted: InvocationId) -> Option<InvocationView> {
    let mut view = match wanted.to_string().as_str() {
        ENDED => InvocationView::of(&record("hello", Reason::Ok, "", None)),
        FAILED | FAILED_WITH_RESULT => InvocationView::of(&record("fails", Reason::Exit(3), "no such host", None)),
        RUNNING => {
            let mut view = InvocationView::of(&record("stuck", Reason::Ok, "", None));
            (view.state, view.reason, view.ended_at) = (State::Running, None, None);
            view
        }
        _ => return None,
    };
    view.id = wanted;
    Some(view)
}

fn log_line(text: &str, stream: &str) -> LogLine {
    LogLine {
        time: "2026-11-21T08:00:00.123Z".to_owned(),
        function: name("hello"),
        invocation: id(ENDED),
        attempt: 1,
        stream: stream.to_owned(),
        text: text.to_owned(),
    }
}

pub(crate) fn diagnostic() -> Diagnostic {
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

fn letter(wanted: InvocationId) -> Option<DeadLetter> {
    let invocation = view(wanted).filter(|_| wanted == id(FAILED))?;
    Some(DeadLetter {
        invocation,
        payload: Some("{\"to\": \"ada\"}".to_owned()),
        payload_bytes: Some(13),
        content_type: Some("application/json".to_owned()),
    })
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

    fn known(&self, function: &FunctionName, done: Answer) -> Answering {
        self.answer(if NAMES.contains(&function.as_str()) {
            done
        } else {
            Answer::NotFound
        })
    }
}

impl Backend for Fake {
    fn buffers(&self) -> Arc<Buffers> {
        Arc::clone(
            self.buffers
                .get_or_init(|| Buffers::new(64 << 20, std::env::temp_dir())),
        )
    }

    fn connections(&self) -> Rc<Connections> {
        let connections = || Rc::new(Connections::new(limits::PLACES));
        Rc::clone(self.connections.get_or_init(connections))
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn node_status(&self) -> NodeStatus {
        NodeStatus {
            version: "0.1.0".to_owned(),
            spawner_version: "0.1.0".to_owned(),
            state: "running".to_owned(),
            started_at: "2026-11-21T08:00:00.000Z".to_owned(),
            node: "vm1".to_owned(),
            cgroups: "v2".to_owned(),
            containment: "cgroup.kill".to_owned(),
            not_enforced: [("memory".to_owned(), "cgroups are read-only".to_owned())].into(),
            left_behind: Vec::new(),
            memory_bytes: 8 << 20,
            running: 0,
            queued: 0,
            functions_by_state: [("ready".to_owned(), 13), ("invalid".to_owned(), 1)].into(),
            problems: Vec::new(),
            functions: self.functions(),
            dead_letters: 1,
            disk: None,
            places: None,
        }
    }

    fn functions(&self) -> Vec<FunctionStatus> {
        NAMES.into_iter().map(status).collect()
    }

    fn function(&self, function: &FunctionName) -> Option<FunctionDetail> {
        NAMES.contains(&function.as_str()).then(|| FunctionDetail {
            status: status(function.as_str()),
            more: fnd_core::api::FunctionMore {
                mode: "script".to_owned(),
                mode_reason: "no handler found".to_owned(),
                newer: None,
                source: format!("/etc/fnd/functions/{function}.py"),
                manifest: serde_json::json!({"env": {"PASSWORD": "hunter2"}, "limits": {"memory": "256M"}}),
                interpreter: "/usr/bin/python3.11".to_owned(),
                uid: Some(70_001),
                diagnostics: vec![serde_json::to_value(diagnostic()).unwrap()],
            },
        })
    }

    fn bounds(&self, function: &FunctionName) -> Option<Bounds> {
        let bounds = Bounds {
            body: 6 << 20,
            timeout: Some(Duration::from_secs(180)),
            mode: Mode::Handler,
            passes: false,
        };
        (NAMES.contains(&function.as_str()) && function.as_str() != "invalid").then_some(bounds)
    }

    fn pass(&self, _: SubmitRequest, _: hyper::body::Incoming) -> PassedOn {
        unreachable!("no function of it serves HTTP")
    }

    fn submit(&self, request: SubmitRequest) -> Answering {
        let mut seen = self.seen.lock().unwrap();
        seen.submitted = Some(request.clone());
        seen.submits += 1;
        drop(seen);
        let function = request.function.as_str();
        let ended = |reason, message, result| Answer::Finished(Box::new(record(function, reason, message, result)));
        let skipped = |skip| {
            Answer::Rejected(Rejection::Skipped {
                skip,
                retry_after: Some(Duration::from_millis(1500)),
            })
        };
        let result = |json, data: &[u8]| {
            Some(RunResult {
                json,
                data: data.into(),
                response: None,
            })
        };
        let answer = match function {
            "full" => skipped(Skip::QueueFull),
            "disabled" => skipped(Skip::Disabled),
            _ if !request.wait => Answer::Queued(id(ENDED)),
            "text" => ended(Reason::Ok, "", result(false, "héllo\u{1b}[2J".as_bytes())),
            "binary" => ended(Reason::Ok, "", result(false, b"\xff\x00\xfe")),
            "teapot" => ended(
                Reason::Ok,
                "",
                result(false, b"<p>none").map(|result| RunResult {
                    response: Some(chosen(418)),
                    ..result
                }),
            ),
            "void" => ended(
                Reason::Ok,
                "",
                result(false, b"").map(|result| RunResult {
                    response: Some(chosen(204)),
                    ..result
                }),
            ),
            "fails" => ended(Reason::Exit(3), "no such host", None),
            "oom" => ended(Reason::Oom, "at the limit of 256 MiB, 3 processes killed", None),
            "bad-answer" => ended(Reason::ResultTooLarge, "result of 7 MiB, the limit is 6 MiB", None),
            "cancelled" => ended(Reason::Cancelled, "cancelled", None),
            "slow" => Answer::TimedOut {
                id: id(ENDED),
                message: "`slow` did not end within 180s (limits.timeout)".to_owned(),
            },
            "stopping" => return oneshot::channel().1.into(),
            "stuck" => {
                let (sender, receiver) = oneshot::channel();
                self.unanswered.borrow_mut().push(sender);
                let hears = Rc::new(Hears(Arc::clone(&self.seen)));
                return Answering::for_caller(receiver, hears, id(RUNNING), ReplyTo(0));
            }
            _ => ended(
                Reason::Ok,
                "",
                request.payload.data.as_ref().map(|data| RunResult {
                    json: true,
                    data: data.bytes().unwrap().into_owned().into(),
                    response: None,
                }),
            ),
        };
        self.answer(answer)
    }

    fn cancel(&self, wanted: InvocationId) -> Answering {
        self.answer(if wanted == id(RUNNING) {
            Answer::Done
        } else {
            Answer::NotFound
        })
    }

    fn set_enabled(&self, function: &FunctionName, _enabled: bool) -> Answering {
        self.known(function, Answer::Done)
    }

    fn invocation(&self, wanted: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>> {
        if wanted == id(BROKEN) {
            return later(Err(Failure("disk I/O error in /var/lib/fnd/state".to_owned())));
        }
        later(Ok(view(wanted)))
    }

    fn ended(&self, wanted: InvocationId) -> Option<Pending<()>> {
        let (sender, receiver) = oneshot::channel::<()>();
        self.waiting.borrow_mut().push(sender);
        (wanted == id(RUNNING)).then(|| Box::pin(async { drop(receiver.await) }) as Pending<()>)
    }

    fn status_written(&self, function: &FunctionName) -> Pending<()> {
        self.seen.lock().unwrap().waited_for.push(function.to_string());
        Box::pin(std::future::ready(()))
    }

    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>> {
        self.seen.lock().unwrap().filter = Some(filter);
        let invocations = [ENDED, FAILED, RUNNING]
            .into_iter()
            .filter_map(|text| view(id(text)))
            .collect();
        later(Ok(InvocationList {
            invocations,
            next: Some(RUNNING.to_owned()),
        }))
    }

    fn repeat(&self, wanted: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>> {
        let function = name("hello");
        later(Ok(match wanted.to_string().as_str() {
            UNKNOWN => Repeated::Unknown,
            RUNNING => Repeated::NotEnded(function, State::Running),
            ENDED if trigger == Trigger::Redrive => Repeated::NotDead(function, State::Succeeded),
            ENDED => Repeated::NotKept(function),
            _ => Repeated::Asked(function, self.answer(Answer::Queued(id(RUNNING)))),
        }))
    }

    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>> {
        self.seen.lock().unwrap().filter = Some(filter);
        later(Ok(DeadLetterList {
            dead_letters: letter(id(FAILED)).into_iter().collect(),
            next: None,
        }))
    }

    fn dead_letter(&self, wanted: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>> {
        later(Ok(letter(wanted)))
    }

    fn drop_dead_letter(&self, wanted: InvocationId) -> Pending<Result<bool, Failure>> {
        later(Ok(wanted == id(FAILED)))
    }

    fn backup(&self) -> Pending<Result<(u64, Pieces), Failure>> {
        let (sender, pieces) = mpsc::channel(2);
        sender.try_send(b"SQLite ".to_vec()).unwrap();
        sender.try_send(b"format 3".to_vec()).unwrap();
        later(Ok((15, pieces)))
    }

    fn result(&self, wanted: InvocationId) -> Pending<Result<Option<RunResult>, Failure>> {
        let data: Option<&[u8]> = match wanted.to_string().as_str() {
            ENDED => Some(b"{\"hello\": \"Ada\"}"),
            FAILED_WITH_RESULT => Some(b"{\"tried\": 3}"),
            _ => None,
        };
        later(Ok(data.map(|data| RunResult {
            json: true,
            data: data.into(),
            response: (wanted.to_string() == ENDED).then(|| chosen(404)),
        })))
    }

    fn logs(&self, query: LogQuery) -> Pending<Result<LogLines, Failure>> {
        let (sender, receiver) = mpsc::channel(8);
        sender.try_send(log_line("first", "stdout")).unwrap();
        sender.try_send(log_line("second \u{1b}[31m", "stderr")).unwrap();
        if query.follow && query.invocation.is_none() {
            self.following.borrow_mut().push(sender);
        }
        self.seen.lock().unwrap().logs = Some(query);
        later(Ok(receiver))
    }

    fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent> {
        let (sender, receiver) = mpsc::channel(4);
        let seq = |number| Seq { epoch: 7, number };
        let event = StreamEvent {
            function: query.function.clone(),
            ..StreamEvent::new(seq(3), 1_795_248_000_123, Kind::Loaded)
        };
        sender.try_send(event).unwrap();
        if query.follow {
            sender
                .try_send(StreamEvent::new(seq(4), 1_795_248_000_124, Kind::Removed))
                .unwrap();
        }
        self.seen.lock().unwrap().stream = Some(query);
        receiver
    }

    fn metrics(&self, form: Form) -> Pending<String> {
        Box::pin(async move { format!("# {form:?}\n") })
    }

    fn watch(&self, filter: FunctionFilter) -> Changes {
        let (sender, receiver) = mpsc::channel(8);
        for status in self.functions() {
            if filter.takes(&status.function, Some(&status)) {
                let (function, now) = (status.function.clone(), Some(Box::new(status)));
                sender.try_send(FunctionChange { function, now }).unwrap();
            }
        }
        receiver
    }

    fn reload(&self, _: bool) -> Pending<Result<ReloadReport, Failure>> {
        later(Ok(ReloadReport {
            applied: vec![name("hello")],
            removed: vec![name("gone")],
            diagnostics: vec![diagnostic()],
        }))
    }

    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>> {
        let valid = !request.content.contains("pyhton");
        let diagnostics = if valid { Vec::new() } else { vec![diagnostic()] };
        later(Ok(ValidateReport { valid, diagnostics }))
    }

    fn drain(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        receiver
    }

    fn runtimes(&self) -> Vec<RuntimeSummary> {
        vec![RuntimeSummary {
            id: "python".to_owned(),
            description: "Python scripts".to_owned(),
            suffixes: vec![".py".to_owned()],
            aliases: vec!["python3".to_owned()],
            versions: vec![RuntimeVersion {
                name: "3.11".to_owned(),
                interpreter: "/usr/bin/python3.11".to_owned(),
            }],
            enabled: true,
        }]
    }

    fn sizes(&self) -> Vec<SizeView> {
        let limits = [
            ("cpu".to_owned(), "150m".to_owned()),
            ("memory".to_owned(), "256M".to_owned()),
        ];
        vec![SizeView {
            name: "XS".to_owned(),
            limits: limits.into(),
        }]
    }

    fn config(&self) -> serde_json::Value {
        serde_json::json!({"build": {"env": {"TOKEN": "hunter3"}}, "keep_versions": 5, "node": {"max_workers": 1000}})
    }
}

/// A server in a thread of its own; stops when dropped.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) seen: Arc<Mutex<Seen>>,
    stop: Option<Stop>,
    thread: Option<std::thread::JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::start_for(Access {
            own_uid: Some(nix_uid()),
            groups: Vec::new(),
        })
    }

    pub(crate) fn start_for(access: Access) -> Self {
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

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}
