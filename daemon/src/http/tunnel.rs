//! A connection that speaks another protocol from its first answer on (`101 Switching Protocols`), for example
//! WebSocket: its bytes pass between the caller and the program until one of them ends.

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::any::Any;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy, split};
use tokio::sync::oneshot;

/// Which side ended such a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The program, or its death.
    Program,
    Caller,
}

/// The program's end of such a connection. If it is dropped, the program's connection is closed.
#[derive(Debug)]
pub struct Tunnel {
    program: Upgraded,
    end: oneshot::Sender<Side>,
    passed: Rc<TunnelCount>,
    kept: Option<Box<dyn Any>>,
}

/// How many bytes have passed after the head of the answer.
#[derive(Debug, Default)]
pub(crate) struct TunnelCount {
    pub(crate) to_caller: Cell<u64>,
    pub(crate) from_caller: Cell<u64>,
}

impl Tunnel {
    /// Returns the tunnel to a program, and the receiver of its end. A dropped sender means that the caller was closed
    /// by fnd.
    #[must_use]
    pub fn new(program: Upgraded) -> (Self, oneshot::Receiver<Side>) {
        let (end, ended) = oneshot::channel();
        let tunnel = Self {
            program,
            end,
            passed: Rc::default(),
            kept: None,
        };
        (tunnel, ended)
    }

    /// Keeps a value that is made with the counts of bytes until the connection ends.
    pub(crate) fn keep<T: 'static>(&mut self, value: impl FnOnce(Rc<TunnelCount>) -> T) {
        self.kept = Some(Box::new(value(Rc::clone(&self.passed))));
    }

    /// Passes bytes until either side ends. `read` is what the caller has sent behind its request.
    pub(super) async fn run(self, caller: impl AsyncRead + AsyncWrite, read: Bytes) {
        let Self {
            program,
            end,
            passed,
            kept: _kept,
        } = self;
        let (from_program, mut to_program) = split(TokioIo::new(program));
        let (from_caller, mut to_caller) = split(caller);
        let mut from_program = CountedReader(from_program, &passed.to_caller);
        let mut from_caller = CountedReader(from_caller, &passed.from_caller);
        let to = async {
            to_program.write_all(&read).await?;
            add(&passed.from_caller, read.len());
            copy(&mut from_caller, &mut to_program).await
        };
        let (side, ended) = tokio::select! {
            // The direction to the caller comes first, so that the program's last bytes arrive if both directions end at
            // once.
            biased;
            // The other direction is dropped, and both sockets with it.
            ended = copy(&mut from_program, &mut to_caller) => (Side::Program, ended),
            ended = to => (Side::Caller, ended),
        };
        let _ = to_caller.shutdown().await; // an error: the caller has gone
        // Either side may break off such a connection at any time, so that is no failure of the program, unless it has died.
        let _ = end.send(side); // an error: fnd is stopping
        if let Err(error) = ended {
            tracing::debug!("a connection after an upgrade broke off: {error}");
        }
    }
}

/// A reader that counts its bytes.
struct CountedReader<'a, R>(R, &'a Cell<u64>);

impl<R: AsyncRead + Unpin> AsyncRead for CountedReader<'_, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buffer);
        add(self.1, buffer.filled().len() - before);
        read
    }
}

fn add(count: &Cell<u64>, bytes: usize) {
    count.set(count.get() + bytes as u64);
}
