//! A worker under test, which is started with a socket as descriptor 3 and gets messages as from fnd.

use crate::runtimes::Runtime;
use bytes::Bytes;
use fnd_core::data::Data;
use fnd_core::records::protocol::{
    Decoder, FailureKind, HttpRequest, InvokeHead, LogRecord, ReadyMessage, ResultHead, WorkerMessage, invoke, stop,
};
use fnd_tests::wait::{PATIENCE, wait_until};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;

/// Largest result in bytes.
const RESULT_MAX: u64 = 16 << 20;
/// When the invocation of each call was accepted.
pub(crate) const TIME: &str = "2026-11-21T08:00:00.123Z";

/// The data of a call.
#[derive(Default, Clone)]
pub(crate) struct Call<'a> {
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) previous: Option<&'a str>,
    pub(crate) context: Option<Value>,
    /// When the attempt ends; absent: a time of the past.
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) variables: Option<serde_json::Map<String, Value>>,
    pub(crate) request: Option<HttpRequest>,
}

impl<'a> Call<'a> {
    pub(crate) fn json(data: &'a str) -> Self {
        Self::of("application/json", data.as_bytes())
    }

    pub(crate) fn text(data: &'a str) -> Self {
        Self::of("text/plain", data.as_bytes())
    }

    pub(crate) fn of(content_type: &'a str, data: &'a [u8]) -> Self {
        Self {
            data: Some(data),
            content_type: Some(content_type),
            ..Self::default()
        }
    }
}

/// How a call ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Result(ResultHead, Option<Vec<u8>>),
    Error {
        kind: FailureKind,
        message: String,
        stack: Option<String>,
        data: Option<Value>,
    },
}

impl Answer {
    /// Returns the body of a result.
    #[track_caller]
    pub(crate) fn body(self) -> Option<Vec<u8>> {
        match self {
            Self::Result(_, body) => body,
            Self::Error { .. } => panic!("expected a result, got {self:?}"),
        }
    }

    /// Returns the body of a result, which is JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let body = self.body().unwrap();
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)))
    }

    /// Returns the body of a result, which is text.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.body().unwrap()).unwrap()
    }

    /// Returns kind and message of an error.
    #[track_caller]
    pub(crate) fn error(self) -> (FailureKind, String) {
        match self {
            Self::Error { kind, message, .. } => (kind, message),
            Self::Result(..) => panic!("expected an error, got {self:?}"),
        }
    }
}

/// A worker; killed when it is dropped.
pub(crate) struct Worker {
    runtime: String,
    child: Child,
    socket: UnixStream,
    decoder: Decoder,
    scratch: TempDir,
    calls: u64,
    /// Log records so far.
    pub(crate) logs: Vec<LogRecord>,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    #[track_caller]
    pub(crate) fn serve(runtime: &Runtime, entry: &Path) -> (Self, ReadyMessage) {
        Self::serve_with(runtime, entry, "")
    }

    /// The same, with the name of the handler.
    #[track_caller]
    pub(crate) fn serve_with(runtime: &Runtime, entry: &Path, handler: &str) -> (Self, ReadyMessage) {
        let mut worker = Self::start(runtime, entry, handler);
        match worker.next_message() {
            Some(WorkerMessage::Ready(ready)) => (worker, ready),
            other => panic!(
                "{}: expected Ready, got {other:?}\n{}",
                runtime.id,
                worker.output("stderr")
            ),
        }
    }

    pub(crate) fn start(runtime: &Runtime, entry: &Path, handler: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let place = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
        let stem = entry.file_stem().unwrap().to_str().unwrap();
        let given = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("HOME", &place("state")),
            ("TMPDIR", &place("")),
            ("FND_FUNCTION", stem),
            ("FND_RUNTIME", &runtime.id),
            ("RUNTIME", &runtime.id),
            ("MOD_NAME", stem),
            ("FUNC_HANDLER", handler),
            ("FUNC_TIMEOUT", "180"),
            ("FUNC_RUNTIME", &runtime.id),
            ("FUNC_MEMORY_LIMIT", "268435456"),
            ("FUNC_PORT", "8080"),
        ];
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        let program = runtime
            .compiled(entry, handler, scratch.path())
            .unwrap_or_else(|why| panic!("{why}"));
        let (command, env) = runtime.command(entry, program.as_deref(), scratch.path(), &names);
        let (inherited, theirs) = UnixStream::pair().unwrap();
        let listener = UnixListener::bind(place("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        // The shell moves the socket to descriptor 3: nothing else can without unsafe code.
        let moved = if runtime.connects() {
            "exec \"$@\" </dev/null"
        } else {
            "exec \"$@\" 3<&0 </dev/null"
        };
        let child = Command::new("/bin/sh")
            .args(["-c", moved, "sh"])
            .args(command)
            .current_dir(entry.parent().unwrap())
            .env_clear()
            .envs(given)
            .envs(env)
            .stdin(OwnedFd::from(theirs))
            .stdout(File::create(place("stdout")).unwrap())
            .stderr(File::create(place("stderr")).unwrap())
            .spawn()
            .unwrap();
        let ours = if runtime.connects() {
            let accepted = || Some(listener.accept().ok()?.0);
            wait_until("the worker to connect", PATIENCE, accepted)
        } else {
            inherited
        };
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            runtime: runtime.id.clone(),
            child,
            socket: ours,
            decoder: Decoder::new(RESULT_MAX, 2000),
            scratch,
            calls: 0,
            logs: Vec::new(),
        }
    }

    /// Returns the next message of the worker; none at the end of the socket.
    pub(crate) fn next_message(&mut self) -> Option<WorkerMessage> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            if let Some(message) = self.decoder.next().unwrap() {
                return Some(message);
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(size) => self.decoder.push(&buffer[..size]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{}: waited for it: {error}\n{}", self.runtime, self.output("stderr")),
            }
        }
    }

    /// Has the handler, which returns its bytes in reverse, return bytes of each of these sizes.
    #[track_caller]
    pub(crate) fn returns_reversed(&mut self, sizes: impl Iterator<Item = usize>) {
        for size in sizes {
            let data: Vec<u8> = (0..size)
                .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[1])
                .collect();
            let mut answer = self.call(&Call::of("application/octet-stream", &data)).body().unwrap();
            answer.reverse();
            assert!(answer == data, "{}: {size} bytes differ", self.runtime);
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends an Invoke; returns the number of the call.
    pub(crate) fn begin(&mut self, call: &Call<'_>) -> u64 {
        self.calls += 1;
        let head = InvokeHead {
            invocation: "0199-\"id\"".into(),
            attempt: 2,
            poll: 3,
            trigger: "manual".into(),
            deadline_ms: call.deadline_ms.or(Some(1_790_000_000_000)),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            content_type: call.content_type.map(Into::into),
            data: None,
            previous: None,
            context: call
                .context
                .as_ref()
                .map(|context| serde_json::from_str(&context.to_string()).unwrap()),
            time: Some(TIME.into()),
            cause: None,
            variables: call.variables.clone(),
            request: call.request.as_ref().map(std::borrow::Cow::Borrowed),
        };
        let previous = call.previous.map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let data = call.data.map(Data::from);
        let bytes = invoke(self.calls, head, data.as_ref(), previous.as_ref());
        let bytes = bytes.unwrap().joined();
        self.send(&bytes);
        self.calls
    }

    /// Returns the next answer and the number of its call; collects log records.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> (u64, Answer) {
        loop {
            match self.next_message() {
                Some(WorkerMessage::Result { call, head, data }) => return (call, Answer::Result(head, data)),
                Some(WorkerMessage::Error { call, failure }) => {
                    let answer = Answer::Error {
                        kind: failure.kind,
                        message: failure.message,
                        stack: failure.stack,
                        data: failure.data,
                    };
                    return (call, answer);
                }
                Some(WorkerMessage::Log { record, .. }) => self.logs.push(record),
                other => panic!(
                    "{}: expected an answer, got {other:?}\n{}",
                    self.runtime,
                    self.output("stderr")
                ),
            }
        }
    }

    /// Calls the function and returns its answer.
    #[track_caller]
    pub(crate) fn call(&mut self, call: &Call<'_>) -> Answer {
        let number = self.begin(call);
        let (answered, answer) = self.answer();
        assert_eq!(answered, number);
        answer
    }

    /// Returns what was printed so far, `stdout` or `stderr`.
    pub(crate) fn output(&self, stream: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.scratch.path().join(stream)).unwrap()).into_owned()
    }

    /// Asks the worker to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        self.send(&stop().joined());
    }

    /// Closes the socket.
    pub(crate) fn hang_up(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Waits until the worker exited; returns its code.
    #[track_caller]
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        wait_until("the worker to exit", PATIENCE, || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker has ended already or is killed here; in both cases it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
