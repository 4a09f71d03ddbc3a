//! Masks the values of secrets in what is kept and shown, by their fingerprints: `***` takes the place of each run of values.
//!
//! Nothing here knows a value. A window as long as a fingerprint is rolled over each line; where its hash is the
//! fingerprint's, its bytes are those of a value ([`fnd_wire::mask`]).
//!
//! ```text
//! line:     ... given out | held back: at most the longest value less one byte | next bytes
//! ```
//! A byte is given out once no value that ends later can contain it. No value contains a line break, so at the end of a
//! line everything is given out.
//!
//! The speed is that of the search, one multiplication for each byte and length: see "Masking" in docs/design/output.md.
//!
//! Files:
//! - `hash`: arithmetic of the hashes, faster than one division for each byte
//! - `state`: the part of a line that is held back

mod hash;
mod state;
#[cfg(test)]
mod tests;

use crate::records::{Response, RunResult};
use fnd_wire::mask::Masks;
use hash::Window;
use state::LineMasker;
pub use state::PendingBytes;
use std::borrow::Cow;
use std::sync::Arc;

/// The text in place of a run of values.
pub const MASKED: &str = "***";

/// The fingerprints of a function's secrets, prepared for the search. A worker and all of its output share them.
#[derive(Debug, Clone)]
pub struct Mask {
    masks: Masks,
    /// One for each length, in ascending order.
    windows: Vec<Window>,
}

impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.masks == other.masks
    }
}

impl Eq for Mask {}

impl Mask {
    /// Prepares fingerprints. There may be none: a value can be too short for one.
    #[must_use]
    pub fn new(masks: Masks) -> Self {
        let lengths = masks.lengths();
        let hashes = |length: usize| {
            let of_length = masks
                .fingerprints
                .iter()
                .filter(move |one| one.length as usize == length);
            of_length.map(|one| one.hash).collect()
        };
        // A length of 0 comes only from damaged bytes.
        let lengths = lengths.into_iter().filter(|length| *length > 0);
        let windows = lengths.map(|length| Window::new(masks.point, length, hashes(length)));
        Self {
            windows: windows.collect(),
            masks,
        }
    }

    /// Says whether these are the fingerprints that it was made of.
    #[must_use]
    pub fn is_of(&self, masks: &Masks) -> bool {
        self.masks == *masks
    }

    /// Returns bytes with their values masked; nothing where they contain none.
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut state = LineMasker::default();
        let mut out = Vec::new();
        state.feed(self, bytes, &mut out);
        state.end(&mut out);
        state.has_found().then_some(out)
    }

    /// Returns a text with its values masked.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            None => Cow::Borrowed(text),
            // A value that is no UTF-8 can end within a character.
            Some(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// Masks the values in a message.
    pub fn message(&self, message: &mut String) {
        if let Cow::Owned(masked) = self.text(message) {
            *message = masked;
        }
    }

    /// States what is kept of a result, where that differs from the result: callers who wait get the result itself.
    pub fn result(&self, result: &mut RunResult) {
        let data = self.bytes(&result.data);
        let response = result.response.as_deref().and_then(|response| self.response(response));
        if data.is_none() && response.is_none() {
            return;
        }
        let data = data.map_or_else(|| result.data.clone(), Into::into);
        // A number that is masked is no JSON any more.
        let json = result.json && serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok();
        let kept = RunResult {
            json,
            data,
            response: response.map(Arc::new).or_else(|| result.response.clone()),
            kept: None,
        };
        result.kept = Some(Arc::new(kept));
    }

    fn response(&self, response: &Response) -> Option<Response> {
        let text = |text: &String| self.text(text).into_owned();
        let masked = Response {
            content_type: response.content_type.as_ref().map(text),
            status: response.status,
            headers: response
                .headers
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
        };
        (masked != *response).then_some(masked)
    }

    /// Returns the length of the longest value; 0 where there is none.
    fn longest(&self) -> usize {
        self.windows.last().map_or(0, |window| window.length)
    }

    /// Returns the length of the shortest value; nothing is shorter where there is none.
    fn shortest(&self) -> usize {
        self.windows.first().map_or(usize::MAX, |window| window.length)
    }
}

/// Masks a stream of bytes that comes in pieces.
#[derive(Debug)]
pub struct Masker {
    mask: Arc<Mask>,
    state: LineMasker,
}

impl Masker {
    /// Returns the masker of a stream at its beginning.
    #[must_use]
    pub fn new(mask: Arc<Mask>) -> Self {
        let state = LineMasker::default();
        Self { mask, state }
    }

    /// Takes the next bytes. Appends to `out` all that can be given out.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.state.feed(&self.mask, bytes, out);
    }

    /// Ends the stream: appends the rest to `out`.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.state.end(out);
    }

    /// Says whether bytes are held back.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.state.holds()
    }

    /// Returns what is held back, unmasked.
    #[must_use]
    pub fn held(&self) -> PendingBytes {
        self.state.held()
    }

    /// Returns the masker of a stream of which this was held back.
    #[must_use]
    pub fn restore(mask: Arc<Mask>, held: &PendingBytes) -> Self {
        let state = LineMasker::restore(&mask, held);
        Self { mask, state }
    }
}
