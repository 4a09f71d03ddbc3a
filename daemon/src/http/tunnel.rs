//! A connection that speaks another protocol from its first answer on (`101 Switching Protocols`), for example
//! WebSocket: its bytes pass between the caller and the program until one of them ends.

use super::line::Io;
use super::passing::End;
use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy, split};
use tokio::sync::oneshot;

/// The program's end of such a connection. If it is dropped, the program's connection is closed.
#[derive(Debug)]
pub struct Tunnel {
    program: Upgraded,
    end: oneshot::Sender<End>,
}

impl Tunnel {
    /// Returns the tunnel to a program, and the receiver of its end. A dropped sender means that the caller was closed
    /// by fnd.
    #[must_use]
    pub fn new(program: Upgraded) -> (Self, oneshot::Receiver<End>) {
        let (end, ended) = oneshot::channel();
        (Self { program, end }, ended)
    }

    /// Passes bytes until either side ends. `read` is what the caller has sent behind its request.
    pub(super) async fn run(self, caller: Io, read: Bytes) {
        let (mut from_program, mut to_program) = split(TokioIo::new(self.program));
        let (mut from_caller, mut to_caller) = split(caller);
        let to = async {
            to_program.write_all(&read).await?;
            copy(&mut from_caller, &mut to_program).await
        };
        let ended = tokio::select! {
            // What the program has sent last reaches the caller: with both ends at once, this one is seen first.
            biased;
            // The other direction is dropped, and both sockets with it.
            ended = copy(&mut from_program, &mut to_caller) => ended,
            ended = to => ended,
        };
        let _ = to_caller.shutdown().await; // an error: the caller has gone
        // Either side may break off such a connection at any time, so that is no failure of the program.
        let _ = self.end.send(Ok(())); // an error: fnd is stopping
        if let Err(error) = ended {
            tracing::debug!("a connection after an upgrade broke off: {error}");
        }
    }
}
