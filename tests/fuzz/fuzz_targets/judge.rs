//! Any bytes as what the judge is sent: it answers or ends, and its answers are ones.
#![no_main]

use fnd_core::plan::JudgeReply;
use fnd_core::wire::Wire as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut output = Vec::new();
    let _ = fnd_daemon::judge::serve(&mut &*bytes, &mut output);
    let mut rest = output.as_slice();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (body, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
        assert!(JudgeReply::from_wire(body).is_ok());
        rest = tail;
    }
    assert!(rest.is_empty());
});
