//! A body that comes piece by piece: in memory while the budget has room, in the file from then on.

use super::{AddressShare, BudgetedBytes, Buffers, OverflowRange, Permit};
use fnd_core::data::Data;
use std::io;
use std::sync::Arc;

/// A body that is not complete yet.
#[derive(Debug)]
pub struct Gathering {
    memory: Vec<u8>,
    /// Number of bytes that are announced.
    announced: usize,
    permit: Permit,
    kept: Option<OverflowRange>,
}

impl Gathering {
    /// Returns a body without bytes.
    pub fn new(buffers: &Arc<Buffers>) -> Self {
        Self {
            memory: Vec::new(),
            announced: 0,
            permit: buffers.permit(0),
            kept: None,
        }
    }

    /// Says how many bytes are announced, within the limit of bodies. They have their place from the first piece on, so
    /// that the body need not move while it grows. Pages that no byte has come for take no memory.
    pub fn announce(&mut self, bytes: u64) {
        self.announced = usize::try_from(bytes).unwrap_or(0);
    }

    /// Returns how many bytes have come so far.
    pub fn size(&self) -> u64 {
        self.kept.as_ref().map_or(self.memory.len() as u64, OverflowRange::size)
    }

    /// Appends a piece; of a caller without a credential, one that its share has taken.
    ///
    /// # Errors
    /// Neither the budget nor the disk has room for it.
    pub async fn push(&mut self, piece: &[u8], share: Option<&AddressShare>) -> io::Result<()> {
        if self.kept.is_none()
            && share.is_none_or(AddressShare::is_for_memory)
            && let Some(more) = self.permit.of.take_for_body(piece.len() as u64)
        {
            self.permit.join(more);
            if self.memory.is_empty() {
                self.memory.reserve_exact(self.announced.max(piece.len()));
            }
            // It grows by an eighth at a time: if it were doubled, it could hold twice the bytes that are counted.
            if self.memory.capacity() - self.memory.len() < piece.len() {
                self.memory.reserve_exact(piece.len().max(self.memory.len() / 8));
            }
            self.memory.extend_from_slice(piece);
            return Ok(());
        }
        let buffers = Arc::clone(&self.permit.of);
        let (kept, memory, piece) = (self.kept.take(), std::mem::take(&mut self.memory), piece.to_vec());
        // The disk may be slow, so it is written on another thread.
        let written = tokio::task::spawn_blocking(move || {
            let mut kept = match kept {
                Some(kept) => kept,
                None => buffers.keep(&memory)?,
            };
            let appended = kept.append(&piece);
            appended.inspect_err(|_| buffers.refuse())?;
            Ok::<_, io::Error>(kept)
        });
        self.kept = Some(written.await.map_err(io::Error::other)??);
        // Given back after the write, because the bytes were in memory until then.
        self.permit.give_back(u64::MAX);
        Ok(())
    }

    /// Ends the body and returns all of it.
    #[must_use]
    pub fn finish(self) -> Data {
        match self.kept {
            Some(kept) => Data::new(kept),
            None => Data::new(BudgetedBytes {
                bytes: self.memory,
                _permit: self.permit,
            }),
        }
    }
}
