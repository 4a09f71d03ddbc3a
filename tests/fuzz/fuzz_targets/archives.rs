//! Any bytes as an archive that is a function; the first byte chooses the format. The spawner accepts whatever the reader gives to
//! it, nothing comes from an archive that is refused, and each refusal has words.
#![no_main]

use fnd_unpack::{Sink, UnpackStop, unpack};
use fnd_wire::archive::{Format, SUFFIXES};
use fnd_wire::form::Bytes;
use fnd_wire::unpack::{Received, Receiver, UnpackRecord, Unpacked};
use libfuzzer_sys::fuzz_target;
use std::io::{self, Cursor};

const BLOCK: usize = 512;

/// Gives each header of a tar file its checksum: the fuzzer cannot guess that.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().any(|byte| *byte != 0) {
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        let text = str::from_utf8(&header[124..135]).unwrap_or_default();
        let size = u64::from_str_radix(text.trim(), 8).unwrap_or(0).min(1 << 30);
        at += BLOCK + usize::try_from(size).unwrap_or(0).div_ceil(BLOCK) * BLOCK;
    }
    archive
}

/// The records that `fnd-helper --unpack` would send.
#[derive(Default)]
struct Records(Vec<u8>);

impl Sink for Records {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.0.extend(UnpackRecord::File(file.clone()).framed());
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend(UnpackRecord::Data(Bytes(bytes.to_vec())).framed());
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let (_, format) = SUFFIXES[usize::from(*first) % SUFFIXES.len()];
    let archive = if format == Format::Tar {
        with_checksums(bytes)
    } else {
        bytes.to_vec()
    };
    let mut records = Records::default();
    match unpack(format, &mut Cursor::new(archive), &mut records) {
        Ok(()) => {
            records.0.extend(UnpackRecord::End.framed());
            let (mut input, mut receiver) = (&records.0[..], Receiver::default());
            while receiver.next(&mut input).expect("the spawner accepts it") != Received::End {}
            assert!(input.is_empty());
        }
        Err(UnpackStop::Refused(refusal)) => {
            assert!(records.0.is_empty());
            let (message, help) = refusal.words();
            assert!(!message.is_empty() && message.len() < 4000 && !help.is_empty());
            assert!(!message.chars().any(char::is_control));
        }
        Err(UnpackStop::Sink(error)) => panic!("{error}"),
    }
});
