//! An answer that stays on the disk until its caller reads it.

use super::limits::READ_MAX;
use super::stream::Chunks;
use crate::buffers::{Buffers, OverflowRange, Permit};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Bytes to read at once.
const PIECE: u64 = 32 << 10;

/// Memory used by a caller that does not read: hyper asks for pieces until it holds as much as it may.
const IN_HAND: u64 = READ_MAX as u64 + PIECE;

/// The rest of an answer.
#[derive(Debug)]
pub(super) struct FromDisk {
    kept: Arc<OverflowRange>,
    at: u64,
    size: u64,
    /// The read of the next piece. The disk may be slow, so the read does not run on the thread that serves all
    /// connections.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    /// Counts the part in memory.
    _in_hand: Permit,
}

impl FromDisk {
    pub(super) fn new(kept: OverflowRange, buffers: &Arc<Buffers>) -> Self {
        Self {
            size: kept.size(),
            kept: Arc::new(kept),
            at: 0,
            reading: None,
            // Taken even if the budget is used up: otherwise the answer could never be sent, and its bytes would stay
            // on the disk.
            _in_hand: buffers.take_anyway(IN_HAND),
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
                // The body is shorter than announced, which the caller notices.
                tracing::error!("failed to read an answer that waited on the disk: {error}, its connection is closed");
                Poll::Ready(None)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.left() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::AnswerPlace;

    #[tokio::test]
    async fn what_its_caller_has_in_hand_counts_until_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(0, directory.path().to_owned());
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[1]).collect();
        let AnswerPlace::Kept(kept) = buffers.hold_answer(bytes.clone().into()).await.unwrap() else {
            panic!("there was no room");
        };
        let mut answer = FromDisk::new(kept, &buffers);
        assert_eq!(buffers.held(), (IN_HAND, 200_000));
        let mut read = Vec::new();
        while let Some(piece) = std::future::poll_fn(|cx| answer.poll_chunk(cx)).await {
            assert!(piece.len() as u64 <= PIECE);
            read.extend(piece);
        }
        assert!(read == bytes && answer.is_over());
        drop(answer);
        assert_eq!(buffers.held(), (0, 0));
    }
}
