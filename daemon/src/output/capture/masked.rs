//! Masks the values of secrets in both streams of an attempt, before they are split into lines.

use super::Stream;
use fnd_core::mask::{Mask, Masker, PendingBytes};
use fnd_wire::form::{Bytes, wire_structs};
use std::sync::Arc;

wire_structs! {
    /// The bytes of both streams that are held back, for the spool: they are unmasked.
    pub struct HeldBack {
        /// The bytes of standard output, and their [`PendingBytes::run`].
        pub stdout: (Bytes, Option<u64>),
        /// The same of standard error.
        pub stderr: (Bytes, Option<u64>),
    }
}

/// The maskers of both streams.
pub(super) struct Masked {
    mask: Arc<Mask>,
    streams: [Masker; 2],
    /// Room for masked bytes, used again for each piece.
    given: Vec<u8>,
}

impl Masked {
    pub(super) fn new(mask: &Arc<Mask>) -> Self {
        Self {
            mask: Arc::clone(mask),
            streams: [(); 2].map(|()| Masker::new(Arc::clone(mask))),
            given: Vec::new(),
        }
    }

    /// Takes the next bytes of a stream, or its end. Returns the bytes that can be given out.
    pub(super) fn feed(&mut self, stream: Stream, bytes: Option<&[u8]>) -> &[u8] {
        self.given.clear();
        let masker = &mut self.streams[stream.pipe()];
        match bytes {
            Some(bytes) => masker.feed(bytes, &mut self.given),
            None => masker.end(&mut self.given),
        }
        &self.given
    }

    /// Says whether a stream has bytes that are held back.
    pub(super) fn holds(&self) -> bool {
        self.streams.iter().any(Masker::holds)
    }

    pub(super) fn held_back(&self) -> HeldBack {
        let [stdout, stderr] = self.streams.each_ref().map(|masker| {
            let PendingBytes { bytes, run } = masker.held();
            (Bytes(bytes), run.map(|run| run as u64))
        });
        HeldBack { stdout, stderr }
    }

    pub(super) fn restore(&mut self, held: HeldBack) {
        self.streams = [held.stdout, held.stderr].map(|(Bytes(bytes), run)| {
            let run = run.map(|run| usize::try_from(run).unwrap_or(usize::MAX));
            Masker::restore(Arc::clone(&self.mask), &PendingBytes { bytes, run })
        });
    }
}
