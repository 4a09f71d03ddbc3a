//! Any bytes as the packets that the judge gets: it answers or ends, and its answers are valid.
#![no_main]

use fnd_fuzz::parts;
use fnd_helper::judge::packets::Packets;
use fnd_manifest::judge::Judge;
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{PROTOCOL_MAX, Partial};
use fnd_wire::plan::JudgeReply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Packets(parts(bytes).map(<[u8]>::to_vec).collect());
    let mut output = Packets::default();
    let _ = fnd_helper::judge::serve(Judge::new(), PROTOCOL_MAX, &mut input, &mut output);
    let mut partial = Partial::default();
    let mut between = true;
    for packet in output.0 {
        let whole = partial.add(&packet).expect("the judge sends packets");
        between = whole.is_some();
        assert!(whole.is_none_or(|answer| JudgeReply::from_wire(&answer).is_ok()));
    }
    assert!(between, "an answer is not whole");
});
