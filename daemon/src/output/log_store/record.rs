//! Records of a segment file: `length u32, crc32 u32`, then invocation, attempt, the number of the first line within
//! the attempt, base time and encoded lines.
//!
//! The rest that a crash or a full disk leaves at the end is no whole record; reading stops there. A record that has other bytes
//! than those that were written is stepped over by its length. If that is damaged, too, the rest of the segment is lost.

use fnd_wire::ids::{Attempt, InvocationId};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt as _;

/// Bytes before the lines, without length and checksum: invocation 16, attempt 4, number of the first line 8, base time
/// 8.
const HEAD: usize = 36;
/// Most bytes of lines in one record; this bounds a reader's memory.
pub(super) const LINES_MAX: usize = 256 << 10;

/// Lines of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputRecord<L = Vec<u8>> {
    pub(super) invocation: InvocationId,
    pub(super) attempt: Attempt,
    /// How many lines of the attempt came before.
    pub(super) first: u64,
    pub(super) base_ms: u64,
    pub(super) lines: L,
}

/// Appends a record's bytes.
pub(super) fn encode(out: &mut Vec<u8>, record: &OutputRecord<&[u8]>) {
    let length = u32::try_from(HEAD + record.lines.len()).expect("a record's lines are at most LINES_MAX and one line");
    out.extend(length.to_le_bytes());
    let checksum_at = out.len();
    out.extend([0; 4]);
    out.extend(record.invocation.0.to_le_bytes());
    out.extend(record.attempt.0.to_le_bytes());
    out.extend(record.first.to_le_bytes());
    out.extend(record.base_ms.to_le_bytes());
    out.extend(record.lines);
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
        Ok(head) => decode_lines(file, &head),
        Err(other) => Ok(other),
    }
}

/// Reads the next record like [`decode`] if it belongs to this invocation. Steps over another record without reading
/// its lines.
pub(super) fn decode_of(file: &mut BufReader<impl Read + Seek>, wanted: InvocationId) -> io::Result<RecordRead> {
    match decode_head(file)? {
        Ok(head) if head.invocation() == wanted => decode_lines(file, &head),
        Ok(head) => {
            // The checksum is not compared, since only the length of this record is used. The buffered bytes are kept.
            file.seek_relative(i64::try_from(head.lines).unwrap_or(i64::MAX))?;
            Ok(RecordRead::Other(head.size()))
        }
        Err(other) => Ok(other),
    }
}

/// Returns whether the record at an offset has these lines: those of an attempt, from the number of the first.
pub(super) fn is_at(file: &File, offset: u64, lines: (InvocationId, Attempt, u64)) -> io::Result<bool> {
    let mut bytes = [0; 8 + HEAD];
    file.read_exact_at(&mut bytes, offset)?;
    let head = decode_head(&mut bytes.as_slice())?;
    Ok(head.is_ok_and(|head| (head.invocation(), head.attempt(), head.first()) == lines))
}

/// The part of a record before its lines.
struct RecordHead {
    checksum: u32,
    bytes: [u8; HEAD],
    /// Bytes of the lines.
    lines: usize,
}

impl RecordHead {
    fn invocation(&self) -> InvocationId {
        InvocationId(number(&self.bytes[..16]))
    }

    fn attempt(&self) -> Attempt {
        Attempt(u32::try_from(number(&self.bytes[16..20])).unwrap_or(u32::MAX))
    }

    fn first(&self) -> u64 {
        u64::try_from(number(&self.bytes[20..28])).unwrap_or(u64::MAX)
    }

    /// Returns the size of the record in the file, in bytes.
    fn size(&self) -> u64 {
        (8 + HEAD + self.lines) as u64
    }
}

/// Reads the next head; an error is what is there in its place.
fn decode_head(file: &mut impl Read) -> io::Result<Result<RecordHead, RecordRead>> {
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
    let checksum = u32::from_le_bytes([e, f, g, h]);
    Ok(Ok(RecordHead { checksum, bytes, lines }))
}

fn decode_lines(file: &mut impl Read, head: &RecordHead) -> io::Result<RecordRead> {
    let mut lines = vec![0; head.lines];
    if !fill(file, &mut lines)? {
        return Ok(RecordRead::End);
    }
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head.bytes);
    checksum.update(&lines);
    if checksum.finalize() != head.checksum {
        return Ok(RecordRead::Damaged(head.size()));
    }
    let record = OutputRecord {
        invocation: head.invocation(),
        attempt: head.attempt(),
        first: head.first(),
        base_ms: u64::try_from(number(&head.bytes[28..36])).unwrap_or(u64::MAX),
        lines,
    };
    Ok(RecordRead::Whole(record, head.size()))
}

/// Reads a little-endian number.
fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

/// Fills a buffer; returns whether there were enough bytes.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_a_torn_or_flipped_byte_is_not_read() {
        let mut bytes = Vec::new();
        let record = OutputRecord {
            invocation: InvocationId(7),
            attempt: Attempt(2),
            first: 3,
            base_ms: 1_795_000_000_000,
            lines: b"lines".to_vec(),
        };
        encode(
            &mut bytes,
            &OutputRecord {
                invocation: record.invocation,
                attempt: record.attempt,
                first: record.first,
                base_ms: record.base_ms,
                lines: &record.lines,
            },
        );
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
            encode(
                &mut bytes,
                &OutputRecord {
                    invocation: InvocationId(id),
                    attempt: Attempt(1),
                    first: 0,
                    base_ms: 0,
                    lines,
                },
            );
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
