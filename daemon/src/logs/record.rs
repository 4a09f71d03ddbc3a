//! Records of a segment file: `length u32, crc32 u32`, then invocation, attempt, the first line's number within the attempt,
//! base time and encoded lines.
//!
//! Whatever a crash or a full disk leaves at the end is no valid record, and reading stops there.

use fnd_core::ids::{Attempt, InvocationId};
use std::io::{self, Read};

/// Bytes before the lines, after length and checksum: invocation 16, attempt 4, first line's number 8, base time 8.
const HEAD: usize = 36;
/// Most bytes of lines in one record, so that a reader's memory is bounded.
pub(super) const LINES_MAX: usize = 256 << 10;

/// Lines of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<L = Vec<u8>> {
    pub(super) invocation: InvocationId,
    pub(super) attempt: Attempt,
    /// How many lines of the attempt came before.
    pub(super) first: u64,
    pub(super) base_ms: u64,
    pub(super) lines: L,
}

/// Appends a record's bytes.
pub(super) fn encode(out: &mut Vec<u8>, record: &Record<&[u8]>) {
    let length = u32::try_from(HEAD + record.lines.len()).expect("a record's lines are at most LINES_MAX and one line");
    out.extend(length.to_le_bytes());
    let checksum_at = out.len();
    out.extend([0; 4]);
    out.extend(record.invocation.0.to_le_bytes());
    out.extend(record.attempt.0.to_le_bytes());
    out.extend(record.first.to_le_bytes());
    out.extend(record.base_ms.to_le_bytes());
    out.extend(record.lines);
    let checksum = crc32(&out[checksum_at + 4..]);
    out[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the next record. Returns it with its size in the file; absent at the end and where there is no valid one.
pub(super) fn decode(file: &mut impl Read) -> io::Result<Option<(Record, u64)>> {
    let mut prefix = [0; 8];
    if !fill(file, &mut prefix)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = prefix;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    // A record is filled line by line, so it exceeds its bound by less than one line.
    if !(HEAD..=HEAD + 2 * LINES_MAX).contains(&length) {
        return Ok(None);
    }
    let mut body = vec![0; length];
    if !fill(file, &mut body)? || crc32(&body) != u32::from_le_bytes([e, f, g, h]) {
        return Ok(None);
    }
    let lines = body.split_off(HEAD);
    let number = |range: std::ops::Range<usize>| {
        let bytes = body[range].iter().rev();
        bytes.fold(0, |sum: u128, byte| (sum << 8) | u128::from(*byte))
    };
    let record = Record {
        invocation: InvocationId(number(0..16)),
        attempt: Attempt(u32::try_from(number(16..20)).unwrap_or(u32::MAX)),
        first: u64::try_from(number(20..28)).unwrap_or(u64::MAX),
        base_ms: u64::try_from(number(28..36)).unwrap_or(u64::MAX),
        lines,
    };
    Ok(Some((record, 8 + length as u64)))
}

/// Fills a buffer; says whether there was enough.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// CRC-32 as in IEEE 802.3, reflected, one table lookup a byte.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            #[expect(clippy::cast_possible_truncation, reason = "n is below 256; try_from is not const")]
            let mut value = n as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 {
                    (value >> 1) ^ 0xedb8_8320
                } else {
                    value >> 1
                };
                bit += 1;
            }
            table[n] = value;
            n += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)];
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_torn_or_flipped_byte_ends_reading() {
        let mut bytes = Vec::new();
        let record = Record {
            invocation: InvocationId(7),
            attempt: Attempt(2),
            first: 3,
            base_ms: 1_795_000_000_000,
            lines: b"lines".to_vec(),
        };
        encode(
            &mut bytes,
            &Record {
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
}
