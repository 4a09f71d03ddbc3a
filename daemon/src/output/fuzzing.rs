//! The fuzzer's entry to spools.

use super::capture::Capture;
use super::spool::{Replayed, Spools};
use fnd_wire::form::Wire as _;
use fnd_wire::ids::{Attempt, InvocationId};
use std::path::Path;

/// Reads these bytes as a spool in a directory, twice, and keeps the output that is in them.
///
/// # Panics
/// The second time gives something else.
pub fn spool(directory: &Path, bytes: &[u8]) {
    let key = (InvocationId(1), Attempt(1));
    let path = directory.join(format!("{}.{}", key.0, key.1.0));
    std::fs::write(&path, bytes).expect("a file in memory");
    let mut spools = Spools::new(directory.to_owned());
    assert_eq!(spools.list().expect("the directory is there"), [key]);
    let meta = spools.meta(key);
    let mut replay = || match spools.replay(key).expect("a file can be read") {
        Replayed::Whole { capture, .. } => Some(capture),
        Replayed::Nothing | Replayed::Lost => None,
    };
    let Some(mut first) = replay() else {
        assert!(meta.is_none(), "it says whose it is and is not read");
        return;
    };
    let mut second = replay().expect("it was read before");
    // The time of a first line may be in the base or in the line; a restored capture has it in the base.
    let settled = |capture: &mut Capture| {
        let meta = capture.meta.clone();
        Capture::restore(meta, capture.snapshot()).snapshot().to_wire()
    };
    assert_eq!(settled(&mut first), settled(&mut second));
    first.end(first.last_ms, &mut |_, _| {});
}
