//! Any bytes as what the judge is sent, in packets: it answers or ends, and its answers are ones.
#![no_main]

use fnd_fuzz::parts;
use fnd_wire::form::Wire as _;
use fnd_wire::frame::Partial;
use fnd_wire::plan::JudgeReply;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// A socket that keeps packets apart: some to read, and those that were written.
#[derive(Default)]
struct Packets(VecDeque<Vec<u8>>);

impl Read for Packets {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let packet = self.0.pop_front().unwrap_or_default();
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(packet.len())
    }
}

impl Write for Packets {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        self.0.push_back(packet.to_vec());
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Packets(parts(bytes).map(<[u8]>::to_vec).collect());
    let mut output = Packets::default();
    let _ = fnd_daemon::judge::serve(&mut input, &mut output);
    let mut partial = Partial::default();
    let mut between = true;
    for packet in output.0 {
        let whole = partial.add(&packet).expect("the judge sends packets");
        between = whole.is_some();
        assert!(whole.is_none_or(|answer| JudgeReply::from_wire(&answer).is_ok()));
    }
    assert!(between, "an answer is not whole");
});
