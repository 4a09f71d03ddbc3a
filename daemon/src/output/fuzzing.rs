//! The fuzzer's entry to spools.

use super::SpoolPlaces;
use super::capture::Capture;
use super::spool::{Loss, Replayed, Spools};
use fnd_core::mask::Mask;
use fnd_wire::form::Wire as _;
use fnd_wire::ids::{Attempt, InvocationId};
use fnd_wire::mask::Masks;
use std::path::Path;
use std::sync::Arc;

/// Reads these bytes as a spool in a directory, twice, and keeps the output that is in them.
///
/// # Panics
/// The second time gives something else.
pub fn spool(directory: &Path, bytes: &[u8]) {
    let key = (InvocationId(1), Attempt(1));
    let places = SpoolPlaces {
        state: directory.join("state"),
        memory: directory.join("memory"),
    };
    let path = places.state.join(format!("{}.{}", key.0, key.1.0));
    let mut spools = Spools::new(places);
    std::fs::write(&path, bytes).expect("a file in memory");
    let masks = Masks::of(1 << 60, [&b"secret"[..], b"second secret"]).expect("two short lines");
    let mask = Some(Arc::new(Mask::new(masks)));
    assert_eq!(spools.list().expect("the directory is there"), [key]);
    let meta = spools.meta(key);
    let mut is_marker = false;
    let mut replay = || match spools.replay(key, mask.as_ref()).expect("a file can be read") {
        Replayed::Whole { capture, .. } => Some(capture),
        Replayed::Lost(loss) => {
            is_marker = loss == Loss::Memory;
            None
        }
        Replayed::Nothing => None,
    };
    let Some(mut first) = replay() else {
        assert!(meta.is_none() || is_marker, "it says whose it is and is not read");
        return;
    };
    let mut second = replay().expect("it was read before");
    // The time of a first line may be in the base or in the line; a restored capture has it in the base.
    let settled = |capture: &mut Capture| {
        let mut restored = Capture::restore(capture.meta.clone(), capture.snapshot());
        restored.hold_back(capture.held_back().expect("it has secrets"));
        let held = restored.held_back().expect("it has secrets");
        (restored.snapshot().to_wire(), held.to_wire())
    };
    assert_eq!(settled(&mut first), settled(&mut second));
    first.end(first.last_ms, &mut |_, _| {});
}
