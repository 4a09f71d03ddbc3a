//! A body that fnd holds until its caller reads it: in memory, or on the disk if the memory budget has no room.

use super::limits::READ_MAX;
use crate::buffers::{AnswerPlace, Buffers, OverflowRange, Permit, UNCOUNTED};
use hyper::body::Bytes;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// Bytes that were taken of the body of an answer; nothing while there is no body that fnd holds.
pub(super) type BodyProgress = Rc<Cell<Option<usize>>>;

/// Largest piece of a counted body. The memory budget does not count the last piece once HTTP/2 has it, although it may wait
/// there for the client's window.
const COUNTED_PIECE: usize = 16 << 10;

/// Bytes to read at once.
const PIECE: u64 = 32 << 10;

/// Memory used by a caller that does not read: hyper asks for pieces until it holds as much as it may.
const IN_HAND: u64 = READ_MAX as u64 + PIECE;

/// The rest of a body.
#[derive(Debug)]
pub(super) struct HeldBody {
    place: HeldPlace,
    /// It contains values of secrets, which must not be on the disk.
    is_secret: bool,
    /// Counts the bytes that HTTP/2 has taken of it; absent over HTTP/1.1.
    taken: Option<BodyProgress>,
}

#[derive(Debug)]
enum HeldPlace {
    Memory(Bytes),
    /// An answer that exceeds the memory budget.
    Disk(FromDisk),
}

impl HeldBody {
    /// Returns a body in memory. A secret one never moves to the disk.
    pub(super) fn new(bytes: Bytes, is_secret: bool) -> Self {
        Self {
            place: HeldPlace::Memory(bytes),
            is_secret,
            taken: None,
        }
    }

    /// Counts into `taken` how much of the body is taken. The body then comes in pieces.
    pub(super) fn count_taken(&mut self, taken: &BodyProgress) {
        taken.set(Some(0));
        self.taken = Some(Rc::clone(taken));
    }

    /// Counts the body against the memory budget until it is read; moves it to the disk if the budget has no room.
    ///
    /// # Errors
    /// If the disk has no room either.
    pub(super) async fn count(&mut self, buffers: &Arc<Buffers>) -> io::Result<()> {
        if let HeldPlace::Memory(bytes) = &mut self.place
            && bytes.len() > UNCOUNTED
        {
            if self.is_secret {
                *bytes = buffers.hold_in_memory(std::mem::take(bytes));
                return Ok(());
            }
            match buffers.hold_answer(std::mem::take(bytes)).await? {
                AnswerPlace::Memory(counted) => *bytes = counted,
                AnswerPlace::Kept(kept) => self.place = HeldPlace::Disk(FromDisk::new(kept, buffers)),
            }
        }
        Ok(())
    }

    /// Returns how many bytes are still to come.
    pub(super) fn left(&self) -> u64 {
        match &self.place {
            HeldPlace::Memory(bytes) => bytes.len() as u64,
            HeldPlace::Disk(rest) => rest.left(),
        }
    }

    /// Returns the next piece; nothing after the last one. An error breaks the connection off: of a body without a length, the caller
    /// would take the bytes before for the whole.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = match &mut self.place {
            HeldPlace::Memory(bytes) if self.taken.is_some() && bytes.len() > COUNTED_PIECE => {
                Some(bytes.split_to(COUNTED_PIECE))
            }
            HeldPlace::Memory(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            HeldPlace::Disk(rest) => match ready!(rest.poll_chunk(cx)).transpose() {
                Ok(piece) => piece.map(Bytes::from),
                Err(error) => return Poll::Ready(Some(Err(error))),
            },
        };
        let Some(mut piece) = piece else {
            return Poll::Ready(None);
        };
        if let Some(taken) = &self.taken {
            let before = taken.get().unwrap_or_default();
            taken.set(Some(before + piece.len()));
            if before > 0 && self.left() == 0 {
                // The last piece must not keep the memory of all.
                piece = Bytes::copy_from_slice(&piece);
            }
        }
        Poll::Ready(Some(Ok(piece)))
    }
}

/// The rest of a body on the disk.
#[derive(Debug)]
struct FromDisk {
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
    fn new(kept: OverflowRange, buffers: &Arc<Buffers>) -> Self {
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

    fn left(&self) -> u64 {
        self.size.saturating_sub(self.at)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
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
        let read = read.map_err(io::Error::other).flatten();
        let read = read.and_then(|piece| match piece.len() {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            size => {
                self.at += size as u64;
                Ok(piece)
            }
        });
        if let Err(error) = &read {
            tracing::error!("failed to read an answer that waited on the disk: {error}, its connection is closed");
        }
        Poll::Ready(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let piece = piece.unwrap();
            assert!(piece.len() as u64 <= PIECE);
            read.extend(piece);
        }
        assert!(read == bytes && answer.left() == 0);
        drop(answer);
        assert_eq!(buffers.held(), (0, 0));
    }

    #[tokio::test]
    async fn a_body_that_the_disk_does_not_give_back_has_no_end() {
        let directory = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(0, directory.path().to_owned());
        let mut body = HeldBody::new(vec![7_u8; 100_000].into(), false);
        body.count(&buffers).await.unwrap();
        let HeldPlace::Disk(rest) = &mut body.place else {
            panic!("there was no room");
        };
        rest.size += 1; // a byte that is missing on the disk
        let mut read = 0;
        let end = loop {
            match std::future::poll_fn(|cx| body.poll_piece(cx)).await {
                Some(Ok(piece)) => read += piece.len(),
                end => break end,
            }
        };
        assert_eq!(read, 100_000);
        assert!(matches!(end, Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof));
    }
}
