//! A socket in memory, for tests and for the fuzzer: what one write sends, one read takes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// Packets to read, and those that were written.
#[derive(Debug, Default)]
pub struct Packets(pub VecDeque<Vec<u8>>);

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
