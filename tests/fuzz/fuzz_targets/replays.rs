//! Any bytes as the file of admitted requests: what is read is written and read again, and a request that was read is
//! not admitted.
#![no_main]

use fnd_core::triggers::replay_file::{read, write};
use fnd_core::triggers::replays::Replayed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(content) = read(bytes) else { return };
    let again = read(&write(&content.replays)).expect("it is of this version");
    assert_eq!(again.skipped, 0);
    assert_eq!(again.replays.dropped_s(), content.replays.dropped_s());
    assert!(again.replays.keys().eq(content.replays.keys()));
    let mut replays = again.replays;
    for key in content.replays.keys() {
        assert_eq!(replays.admit(key, key.until_s), Err(Replayed::Before));
    }
});
