//! Records of a segment file: `length u32, crc32 u32`, then invocation, attempt, the number of the first line within
//! the attempt, base time and encoded lines.
//!
//! The rest that a crash or a full disk leaves at the end is no valid record; reading stops there.

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

/// Reads the next record. Returns it with its size in the file; nothing at the end of the file or if there is no valid
/// record.
pub(super) fn decode(file: &mut impl Read) -> io::Result<Option<(OutputRecord, u64)>> {
    match decode_head(file)? {
        Some(head) => decode_lines(file, &head),
        None => Ok(None),
    }
}

/// Reads the next record like [`decode`] if it belongs to this invocation. Steps over another record without reading
/// its lines, and returns only its size.
pub(super) fn decode_of(
    file: &mut BufReader<impl Read + Seek>,
    wanted: InvocationId,
) -> io::Result<Option<(Option<OutputRecord>, u64)>> {
    let Some(head) = decode_head(file)? else {
        return Ok(None);
    };
    if head.invocation() == wanted {
        return Ok(decode_lines(file, &head)?.map(|(record, size)| (Some(record), size)));
    }
    // The checksum is not compared, since only the length of this record is used. The buffered bytes are kept.
    file.seek_relative(i64::try_from(head.lines).unwrap_or(i64::MAX))?;
    Ok(Some((None, head.size())))
}

/// Returns whether the record at an offset has these lines: those of an attempt, from the number of the first.
pub(super) fn is_at(file: &File, offset: u64, lines: (InvocationId, Attempt, u64)) -> io::Result<bool> {
    let mut bytes = [0; 8 + HEAD];
    file.read_exact_at(&mut bytes, offset)?;
    let head = decode_head(&mut bytes.as_slice())?;
    Ok(head.is_some_and(|head| (head.invocation(), head.attempt(), head.first()) == lines))
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

fn decode_head(file: &mut impl Read) -> io::Result<Option<RecordHead>> {
    let mut prefix = [0; 8];
    let mut bytes = [0; HEAD];
    if !fill(file, &mut prefix)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = prefix;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let Some(lines) = length.checked_sub(HEAD) else {
        return Ok(None);
    };
    // A record is filled line by line, so it exceeds its limit by less than one line.
    if lines > 2 * LINES_MAX || !fill(file, &mut bytes)? {
        return Ok(None);
    }
    let checksum = u32::from_le_bytes([e, f, g, h]);
    Ok(Some(RecordHead { checksum, bytes, lines }))
}

fn decode_lines(file: &mut impl Read, head: &RecordHead) -> io::Result<Option<(OutputRecord, u64)>> {
    let mut lines = vec![0; head.lines];
    if !fill(file, &mut lines)? {
        return Ok(None);
    }
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&head.bytes);
    checksum.update(&lines);
    if checksum.finalize() != head.checksum {
        return Ok(None);
    }
    let record = OutputRecord {
        invocation: head.invocation(),
        attempt: head.attempt(),
        first: head.first(),
        base_ms: u64::try_from(number(&head.bytes[28..36])).unwrap_or(u64::MAX),
        lines,
    };
    Ok(Some((record, head.size())))
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
    fn every_torn_or_flipped_byte_ends_reading() {
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
        assert_eq!(decode(&mut bytes.as_slice()).unwrap(), Some((record, size)));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&mut &bytes[..cut]).unwrap(), None, "cut at {cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 0x10;
            assert_eq!(decode(&mut flipped.as_slice()).unwrap(), None, "flipped at {cut}");
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
        while let Some((record, size)) = decode_of(&mut file, InvocationId(2)).unwrap() {
            at += size;
            seen.push(record.map(|record| record.lines));
        }
        assert_eq!(seen, [None, Some(b"wanted".to_vec()), None, Some(b"again".to_vec())]);
        assert_eq!(at, bytes.len() as u64);
    }
}
