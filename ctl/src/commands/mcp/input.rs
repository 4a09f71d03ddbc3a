//! Standard input, whose end is known at once: calls that still run are cancelled then, because their client is gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf, Stdin, stdin};
use tokio::sync::watch;

/// The bytes of the client.
pub(super) struct ClientInput {
    stdin: Stdin,
    has_ended: watch::Sender<bool>,
}

impl ClientInput {
    /// Returns standard input; its end is sent to `has_ended`.
    pub(super) fn new(has_ended: watch::Sender<bool>) -> Self {
        Self {
            stdin: stdin(),
            has_ended,
        }
    }
}

impl AsyncRead for ClientInput {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdin).poll_read(cx, buffer);
        // A read without a byte is the end (read(2)), and after an error nothing comes either.
        if read.is_ready() && buffer.filled().len() == before {
            self.has_ended.send_replace(true);
        }
        read
    }
}
