//! A shim without fnd, called over a socketpair with as little as the protocol allows: the lower bound of warm calls.

use fnd_core::records::protocol::{Decoder, InvokeHead, WorkerMessage, invoke};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Most bytes of a result.
const RESULT_MAX: u64 = 1 << 20;

/// A worker without fnd; killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    socket: UnixStream,
    decoder: Decoder,
    buffer: Vec<u8>,
    calls: u64,
}

impl Worker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(command: &Command) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a pair of sockets");
        // The shell moves the socket to descriptor 3: nothing else can without unsafe code.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec \"$@\" 3<&0 </dev/null", "sh"]);
        shell.arg(command.get_program()).args(command.get_args()).env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let mut worker = Self {
            child: shell.spawn().expect("the shim starts"),
            socket,
            decoder: Decoder::new(RESULT_MAX, 1),
            buffer: vec![0; 64 << 10],
            calls: 0,
        };
        let message = worker.next_message();
        assert!(matches!(message, WorkerMessage::Ready(_)), "{message:?}");
        worker
    }

    /// Calls it and takes its answer.
    pub(crate) fn call(&mut self) {
        self.calls += 1;
        let head = InvokeHead {
            invocation: "01990000-0000-7000-8000-000000000000".into(),
            attempt: 1,
            poll: 0,
            trigger: "manual".into(),
            deadline_ms: Some(4_102_444_800_000), // as fnd sends it: some years away
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            content_type: None,
            data: None,
            previous: None,
            context: None,
            time: Some("2026-11-26T08:00:00.123Z".into()),
            cause: None,
            variables: None,
            request: None,
        };
        let message = invoke(self.calls, head, None, None).expect("there is no payload");
        self.socket.write_all(&message.joined()).expect("the worker reads");
        let message = self.next_message();
        assert!(
            matches!(message, WorkerMessage::Result { call, .. } if call == self.calls),
            "{message:?}"
        );
    }

    fn next_message(&mut self) -> WorkerMessage {
        loop {
            if let Some(message) = self.decoder.next().expect("it speaks the protocol") {
                return message;
            }
            let count = self.socket.read(&mut self.buffer).expect("the worker answers");
            assert!(count > 0, "the worker ended");
            self.decoder.push(self.buffer.get(..count).unwrap_or_default());
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended by itself
        let _ = self.child.wait();
    }
}
