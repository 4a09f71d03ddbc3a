//! The part of a line that is held back, and the values found in it.

use super::{MASKED, Mask};

/// Bytes that are searched at once. The values found in a piece are held until they are joined, which this bounds.
const PIECE: usize = 1 << 10;

/// The unfinished line of a stream.
#[derive(Debug, Default)]
pub(super) struct LineMasker {
    /// Bytes of the line; those before `start` are given out.
    line: Vec<u8>,
    start: usize,
    /// The hash of each beginning of `line`, the empty one included; empty before the first byte.
    hashes: Vec<u64>,
    /// The runs of values in the line that are not given out whole, in their order.
    runs: Vec<MaskRun>,
    /// For each byte of a piece, the length of the longest value that ends there; empty where there is none.
    longest: Vec<usize>,
    found: bool,
}

/// A run of values.
#[derive(Debug, Clone, Copy)]
struct MaskRun {
    start: usize,
    end: usize,
    /// The mask in its place is given out already.
    masked: bool,
}

/// The bytes that a masker holds back, because a value may go on after them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingBytes {
    /// The bytes, unmasked.
    pub bytes: Vec<u8>,
    /// How many of them belong to a run of values that began before them; absent where there is no such run.
    pub run: Option<usize>,
}

impl LineMasker {
    pub(super) fn feed(&mut self, mask: &Mask, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (piece, after) = rest.split_at(end);
            // A line that is shorter than each value needs no search.
            if self.hashes.is_empty() && piece.len() < mask.shortest() {
                out.extend_from_slice(piece);
            } else {
                self.push(mask, piece, out);
                self.end(out);
            }
            out.push(b'\n');
            rest = &after[1..];
        }
        self.push(mask, rest, out);
    }

    /// Gives out the rest of the line.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.give(self.line.len(), out);
        self.line.clear();
        self.hashes.clear();
        self.runs.clear();
        self.start = 0;
    }

    pub(super) fn has_found(&self) -> bool {
        self.found
    }

    pub(super) fn holds(&self) -> bool {
        self.start < self.line.len()
    }

    pub(super) fn held(&self) -> PendingBytes {
        let run = self.runs.first().filter(|run| run.masked);
        PendingBytes {
            bytes: self.line.get(self.start..).unwrap_or_default().to_vec(),
            run: run.map(|run| run.end.saturating_sub(self.start)),
        }
    }

    pub(super) fn restore(mask: &Mask, held: &PendingBytes) -> Self {
        let mut state = Self::default();
        // A damaged spool may state more than there is.
        let run = held.run.map(|end| MaskRun {
            start: 0,
            end: end.min(held.bytes.len()),
            masked: true,
        });
        state.runs.extend(run);
        for piece in held.bytes.chunks(PIECE) {
            state.search(mask, piece);
        }
        state
    }

    fn push(&mut self, mask: &Mask, bytes: &[u8], out: &mut Vec<u8>) {
        if mask.windows.is_empty() {
            return out.extend_from_slice(bytes);
        }
        for piece in bytes.chunks(PIECE) {
            self.search(mask, piece);
            // All bytes of the longest value but its last one may have come.
            let held = mask.longest().saturating_sub(1);
            self.give(self.line.len().saturating_sub(held), out);
        }
    }

    /// Appends a piece to the line and finds the values that end in it.
    fn search(&mut self, mask: &Mask, piece: &[u8]) {
        let Some(window) = mask.windows.first() else { return };
        let from = self.line.len();
        if self.hashes.is_empty() {
            self.hashes.push(0);
        }
        self.line.extend_from_slice(piece);
        window.powers.extend(&mut self.hashes, piece);
        let longest = &mut self.longest;
        longest.clear();
        for window in &mask.windows {
            if window.length > self.line.len() {
                break;
            }
            window.find(&self.hashes, from, |end| {
                longest.resize(piece.len(), 0);
                // The lengths ascend: of two values that end at the same byte, the longer one stays.
                if let Some(longest) = longest.get_mut(end - from - 1) {
                    *longest = window.length;
                }
            });
        }
        self.found |= !longest.is_empty();
        for (offset, length) in longest.iter().enumerate().filter(|(_, length)| **length > 0) {
            let end = from + offset + 1;
            join(&mut self.runs, end - length, end);
        }
    }

    /// Gives out the bytes of the line up to a place.
    fn give(&mut self, to: usize, out: &mut Vec<u8>) {
        if to <= self.start {
            return;
        }
        let mut at = self.start;
        for run in self.runs.iter_mut().take_while(|run| run.start < to) {
            if !std::mem::replace(&mut run.masked, true) {
                out.extend_from_slice(&self.line[at..run.start]);
                out.extend_from_slice(MASKED.as_bytes());
            }
            at = run.end.min(to).max(at);
        }
        out.extend_from_slice(&self.line[at..to]);
        self.start = to;
        // A run that ends here stays: a value that follows at once belongs to it.
        self.runs.retain(|run| run.end >= to);
        // Bytes are moved only after as many were given out.
        if self.start > self.line.len() - self.start {
            let gone = std::mem::take(&mut self.start);
            self.line.drain(..gone);
            self.hashes.drain(..gone);
            for run in &mut self.runs {
                run.start = run.start.saturating_sub(gone);
                run.end = run.end.saturating_sub(gone);
            }
        }
    }
}

/// Adds a value to the runs; it ends behind all values before, except where a line was restored.
fn join(runs: &mut Vec<MaskRun>, start: usize, end: usize) {
    let masked = false;
    let mut joined = MaskRun { start, end, masked };
    while let Some(last) = runs.pop_if(|last| last.end >= joined.start) {
        joined.start = joined.start.min(last.start);
        joined.end = joined.end.max(last.end);
        joined.masked |= last.masked;
    }
    runs.push(joined);
}
