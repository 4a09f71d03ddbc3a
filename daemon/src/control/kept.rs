//! An answer that lies on the disk until its caller reads it.

use super::stream::Chunks;
use crate::buffers::Kept;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Read at once: what a caller who does not read costs of memory.
const PIECE: u64 = 64 << 10;

/// The rest of an answer.
#[derive(Debug)]
pub(super) struct FromDisk {
    kept: Arc<Kept>,
    at: u64,
    size: u64,
    /// The next piece. The disk may be slow: it is read beside the thread that serves everybody.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl FromDisk {
    pub(super) fn new(kept: Kept) -> Self {
        Self {
            size: kept.size(),
            kept: Arc::new(kept),
            at: 0,
            reading: None,
        }
    }

    /// Returns how many bytes are still to come.
    pub(super) fn left(&self) -> u64 {
        self.size.saturating_sub(self.at)
    }
}

impl Chunks for FromDisk {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if self.left() == 0 {
            return Poll::Ready(None);
        }
        let (kept, at) = (&self.kept, self.at);
        let reading = self.reading.get_or_insert_with(|| {
            let kept = Arc::clone(kept);
            tokio::task::spawn_blocking(move || kept.read(at, PIECE))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        match read.map_err(io::Error::other).flatten() {
            Ok(piece) if !piece.is_empty() => {
                self.at += piece.len() as u64;
                Poll::Ready(Some(piece))
            }
            Ok(_) => Poll::Ready(None),
            Err(error) => {
                // The body is shorter than it was said to be, which the caller sees.
                tracing::error!("failed to read an answer that waited on the disk: {error}, its connection is closed");
                Poll::Ready(None)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.left() == 0
    }
}
