//! Records of a segment file: `length u32, crc32 u32`, then invocation, attempt, the number of the first line within
//! the attempt, base time and encoded lines.
//!
//! The rest that a crash or a full disk leaves at the end is no whole record; reading stops there. A record that has other bytes
//! than those that were written is stepped over by its length. If that is damaged, too, the rest of the segment is lost.

use crate::database::log::fill;
use fnd_wire::form::{Wire as _, wire_structs};
use fnd_wire::ids::{Attempt, InvocationId};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt as _;

/// Bytes before the lines, without length and checksum: invocation 16, attempt 4, number of the first line 8, base time
/// 8.
const HEAD: usize = 36;
/// Most bytes of lines in one record; this bounds a reader's memory.
pub(super) const LINES_MAX: usize = 256 << 10;

wire_structs! {
    /// The part of a record before its lines.
    pub struct RecordHead {
        pub invocation: InvocationId,
        pub attempt: Attempt,
        /// How many lines of the attempt came before.
        pub first: u64,
        /// The time from which the first line counts, Unix milliseconds.
        pub base_ms: u64,
    }
}

/// Lines of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputRecord {
    pub(super) head: RecordHead,
    pub(super) lines: Vec<u8>,
}

/// Appends a record's bytes.
pub(super) fn encode(out: &mut Vec<u8>, head: &RecordHead, lines: &[u8]) {
    let length = u32::try_from(HEAD + lines.len()).expect("a record's lines are at most LINES_MAX and one line");
    length.put(out);
    let checksum_at = out.len();
    out.extend([0; 4]);
    head.put(out);
    out.extend(lines);
    let checksum = crc32fast::hash(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The content of a segment file at one offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordRead {
    /// A record, and its size in the file.
    Whole(OutputRecord, u64),
    /// A record of another invocation, of this size. Its lines were not read.
    Other(u64),
    /// A record of this size that has other bytes than those that were written. The next record follows it.
    Damaged(u64),
    /// Bytes that are no record. Nothing says where the next record begins.
    Lost,
    /// The end of the file, or a part of a record before it.
    End,
}

/// Reads the next record.
pub(super) fn decode(file: &mut impl Read) -> io::Result<RecordRead> {
    match decode_head(file)? {
        Ok(read) => decode_lines(file, read),
        Err(other) => Ok(other),
    }
}

/// Reads the next record like [`decode`] if it belongs to this invocation. Steps over another record without reading
/// its lines.
pub(super) fn decode_of(file: &mut BufReader<impl Read + Seek>, wanted: InvocationId) -> io::Result<RecordRead> {
    match decode_head(file)? {
        Ok(read) if read.head.invocation == wanted => decode_lines(file, read),
        Ok(read) => {
            // The checksum is not compared, since only the length of this record is used. The buffered bytes are kept.
            file.seek_relative(i64::try_from(read.lines).unwrap_or(i64::MAX))?;
            Ok(RecordRead::Other(read.size()))
        }
        Err(other) => Ok(other),
    }
}

/// Returns whether the record at an offset has these lines: those of an attempt, from the number of the first.
pub(super) fn is_at(file: &File, offset: u64, lines: (InvocationId, Attempt, u64)) -> io::Result<bool> {
    let mut bytes = [0; 8 + HEAD];
    file.read_exact_at(&mut bytes, offset)?;
    let read = decode_head(&mut bytes.as_slice())?;
    Ok(read.is_ok_and(|ReadHead { head, .. }| (head.invocation, head.attempt, head.first) == lines))
}

/// A head, and what its prefix says.
struct ReadHead {
    checksum: u32,
    bytes: [u8; HEAD],
    head: RecordHead,
    /// Bytes of the lines.
    lines: usize,
}

impl ReadHead {
    /// Returns the size of the record in the file, in bytes.
    fn size(&self) -> u64 {
        (8 + HEAD + self.lines) as u64
    }
}

/// Reads the next head; an error is what is there in its place.
fn decode_head(file: &mut impl Read) -> io::Result<Result<ReadHead, RecordRead>> {
    let mut prefix = [0; 8];
    let mut bytes = [0; HEAD];
    if !fill(file, &mut prefix)? {
        return Ok(Err(RecordRead::End));
    }
    let [a, b, c, d, e, f, g, h] = prefix;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    // A record is filled line by line, so it exceeds its limit by less than one line.
    let Some(lines) = length.checked_sub(HEAD).filter(|lines| *lines <= 2 * LINES_MAX) else {
        return Ok(Err(RecordRead::Lost));
    };
    if !fill(file, &mut bytes)? {
        return Ok(Err(RecordRead::End));
    }
    Ok(Ok(ReadHead {
        checksum: u32::from_le_bytes([e, f, g, h]),
        bytes,
        head: RecordHead::from_wire(&bytes).map_err(io::Error::other)?,
        lines,
    }))
}

fn decode_lines(file: &mut impl Read, read: ReadHead) -> io::Result<RecordRead> {
    let mut lines = vec![0; read.lines];
    if !fill(file, &mut lines)? {
        return Ok(RecordRead::End);
    }
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&read.bytes);
    checksum.update(&lines);
    let size = read.size();
    if checksum.finalize() != read.checksum {
        return Ok(RecordRead::Damaged(size));
    }
    let head = read.head;
    Ok(RecordRead::Whole(OutputRecord { head, lines }, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_a_torn_or_flipped_byte_is_not_read() {
        let mut bytes = Vec::new();
        let head = RecordHead {
            invocation: InvocationId(7),
            attempt: Attempt(2),
            first: 3,
            base_ms: 1_795_000_000_000,
        };
        encode(&mut bytes, &head, b"lines");
        let lines = b"lines".to_vec();
        let record = OutputRecord { head, lines };
        let size = bytes.len() as u64;
        let read = decode(&mut bytes.as_slice()).unwrap();
        assert_eq!(read, RecordRead::Whole(record, size));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&mut &bytes[..cut]).unwrap(), RecordRead::End, "cut at {cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 0x10;
            let expected = match cut {
                // With its low bytes, the length is that of a record behind the end of the file; with the others, that of none.
                0..2 => RecordRead::End,
                2..4 => RecordRead::Lost,
                _ => RecordRead::Damaged(size),
            };
            assert_eq!(decode(&mut flipped.as_slice()).unwrap(), expected, "flipped at {cut}");
        }
    }

    #[test]
    fn others_are_stepped_over() {
        let mut bytes = Vec::new();
        for (id, lines) in [(1, &[b'x'; 100_000][..]), (2, b"wanted"), (1, b"end"), (2, b"again")] {
            let head = RecordHead {
                invocation: InvocationId(id),
                attempt: Attempt(1),
                first: 0,
                base_ms: 0,
            };
            encode(&mut bytes, &head, lines);
        }
        let mut file = BufReader::new(io::Cursor::new(&bytes));
        let mut seen = Vec::new();
        let mut at = 0;
        loop {
            match decode_of(&mut file, InvocationId(2)).unwrap() {
                RecordRead::Whole(record, size) => {
                    at += size;
                    seen.push(Some(record.lines));
                }
                RecordRead::Other(size) => {
                    at += size;
                    seen.push(None);
                }
                RecordRead::Damaged(_) | RecordRead::Lost => panic!("nothing is damaged"),
                RecordRead::End => break,
            }
        }
        assert_eq!(seen, [None, Some(b"wanted".to_vec()), None, Some(b"again".to_vec())]);
        assert_eq!(at, bytes.len() as u64);
    }
}
