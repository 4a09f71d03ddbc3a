//! Any bytes as values of secrets and as a text with them, split anywhere: masked as if the values were known, and no more
//! is held back than the longest value has.
#![no_main]

use fnd_core::mask::{MASKED, Mask, Masker};
use fnd_fuzz::parts;
use fnd_wire::form::Wire as _;
use fnd_wire::mask::{LENGTH_MIN, Masks};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

/// Most bytes of the text: the model compares each value with each place.
const TEXT_MAX: usize = 8 << 10;

fuzz_target!(|bytes: &[u8]| {
    // Fingerprints of a damaged frame do no harm.
    if let Ok(masks) = Masks::from_wire(bytes) {
        let mask = Mask::new(masks);
        assert!(mask.bytes(bytes).is_none_or(|masked| !masked.is_empty()));
    }
    let Some((count, rest)) = bytes.split_first() else {
        return;
    };
    let mut parts = parts(rest);
    let values: Vec<&[u8]> = parts.by_ref().take(usize::from(count % 8)).collect();
    let Ok(masks) = Masks::of(0x1e37_79b9_7f4a_7c15, values.iter().copied()) else {
        return;
    };
    let longest = masks.lengths().last().copied().unwrap_or(1);
    let mask = Arc::new(Mask::new(masks));
    let mut masker = Masker::new(Arc::clone(&mask));
    let (mut text, mut out) = (Vec::new(), Vec::new());
    for (number, part) in parts.enumerate() {
        let room = TEXT_MAX - text.len();
        let part = part.get(..room).unwrap_or(part);
        text.extend_from_slice(part);
        masker.feed(part, &mut out);
        let held = masker.held();
        assert!(held.bytes.len() < longest);
        if number % 3 == 2 {
            masker = Masker::restore(Arc::clone(&mask), &held);
        }
    }
    masker.end(&mut out);
    assert_eq!(out, model(&values, &text));
    assert_eq!(mask.bytes(&text).unwrap_or(text), out);
});

/// Masks a text with the values at hand.
fn model(values: &[&[u8]], text: &[u8]) -> Vec<u8> {
    let lines = values.iter().flat_map(|value| value.split(|byte| *byte == b'\n'));
    let mut marked = vec![false; text.len()];
    for line in lines.map(<[u8]>::trim_ascii).filter(|line| line.len() >= LENGTH_MIN) {
        for start in 0..text.len() {
            if text[start..].starts_with(line) {
                marked[start..start + line.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (marked[at], at > 0 && marked[at - 1]) {
            (false, _) => out.push(*byte),
            (true, false) => out.extend_from_slice(MASKED.as_bytes()),
            (true, true) => {}
        }
    }
    out
}
