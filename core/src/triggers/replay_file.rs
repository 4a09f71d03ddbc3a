//! The bytes of the file that remembers admitted requests over a restart: a header, then records of one size.
//!
//! Each record has a checksum. A record that is torn or foreign is skipped: the others still refuse their requests.

use super::credentials::ReplayKey;
use super::replays::{MAX_REPLAYS, Replays};

/// The first bytes of the file; the digit is the version.
const HEADER: &[u8; RECORD] = b"fnd: signed requests that were admitted, file 1\n";
/// Where the version is.
const VERSION: std::ops::Range<usize> = RECORD - 2..RECORD - 1;
/// The length of a record.
pub const RECORD: usize = 48;
/// A longer file is not fnd's: it is rewritten long before.
pub const MAX_BYTES: usize = RECORD * MAX_REPLAYS * 4;

/// A change of what is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayRecord {
    /// A request was admitted.
    Admitted(ReplayKey),
    /// An admitted request was refused after all.
    Forgotten(ReplayKey),
    /// Keys up to this end (Unix seconds) were dropped.
    Dropped(u64),
}

/// The content of a file.
#[derive(Debug, Default)]
pub struct ReplayFileContent {
    /// The admitted keys, without those that were forgotten or dropped.
    pub replays: Replays,
    /// Records that were skipped, and 1 for a torn end or a foreign beginning.
    pub skipped: usize,
}

/// The file is of a later fnd: it must not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newer;

impl ReplayRecord {
    /// Returns the bytes of the record: checksum, kind, end and digest.
    #[must_use]
    pub fn bytes(&self) -> [u8; RECORD] {
        let (kind, until_s, digest) = match self {
            Self::Admitted(key) => (1_u32, key.until_s, key.digest),
            Self::Forgotten(key) => (2, key.until_s, key.digest),
            Self::Dropped(until_s) => (3, *until_s, [0; 32]),
        };
        let mut bytes = [0; RECORD];
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&until_s.to_le_bytes());
        bytes[16..].copy_from_slice(&digest);
        let sum = crc32fast::hash(&bytes[4..]).to_le_bytes();
        bytes[..4].copy_from_slice(&sum);
        bytes
    }

    fn read(bytes: &[u8; RECORD]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk::<4>()?;
        let (kind, rest_of) = rest.split_first_chunk::<4>()?;
        let (until, digest) = rest_of.split_first_chunk::<8>()?;
        if u32::from_le_bytes(*sum) != crc32fast::hash(rest) {
            return None;
        }
        let until_s = u64::from_le_bytes(*until);
        let digest = digest.try_into().ok()?;
        match u32::from_le_bytes(*kind) {
            1 => Some(Self::Admitted(ReplayKey { digest, until_s })),
            2 => Some(Self::Forgotten(ReplayKey { digest, until_s })),
            3 => Some(Self::Dropped(until_s)),
            _ => None,
        }
    }
}

/// Returns the whole file for what is remembered.
#[must_use]
pub fn write(replays: &Replays) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    bytes.extend(ReplayRecord::Dropped(replays.dropped_s()).bytes());
    for key in replays.keys() {
        bytes.extend(ReplayRecord::Admitted(key).bytes());
    }
    bytes
}

/// Reads a file. An empty one is that of a first start.
///
/// # Errors
/// [`Newer`].
pub fn read(bytes: &[u8]) -> Result<ReplayFileContent, Newer> {
    let mut content = ReplayFileContent::default();
    let (records, torn) = bytes.as_chunks::<RECORD>();
    // A key is written before its request is submitted, so a request whose record is torn has never run.
    content.skipped += usize::from(!torn.is_empty());
    let Some((header, records)) = records.split_first() else {
        return Ok(content);
    };
    if header != HEADER {
        if is_newer(header) {
            return Err(Newer);
        }
        // Records behind a damaged header still have their checksums.
        content.skipped += 1;
    }
    for record in records {
        match ReplayRecord::read(record) {
            Some(ReplayRecord::Admitted(key)) if content.replays.len() < MAX_REPLAYS => content.replays.restore(key),
            Some(ReplayRecord::Forgotten(key)) => content.replays.forget(&key.digest),
            Some(ReplayRecord::Dropped(until_s)) => content.replays.restore_dropped(until_s),
            Some(ReplayRecord::Admitted(_)) | None => content.skipped += 1,
        }
    }
    Ok(content)
}

/// Says whether a header differs from ours only by a greater version.
fn is_newer(header: &[u8; RECORD]) -> bool {
    let mut ours = *header;
    ours[VERSION].copy_from_slice(&HEADER[VERSION]);
    ours == *HEADER && header[VERSION] > HEADER[VERSION]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> ReplayKey {
        ReplayKey {
            digest: [n; 32],
            until_s: 1000 + u64::from(n),
        }
    }

    fn remembered(bytes: &[u8]) -> (Vec<ReplayKey>, u64, usize) {
        let content = read(bytes).unwrap();
        (
            content.replays.keys().collect(),
            content.replays.dropped_s(),
            content.skipped,
        )
    }

    fn file() -> Vec<u8> {
        let mut replays = Replays::default();
        replays.restore_dropped(900);
        (1..4).for_each(|n| replays.restore(key(n)));
        write(&replays)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = file();
        assert_eq!(remembered(&bytes), (vec![key(1), key(2), key(3)], 900, 0));
        for record in [
            ReplayRecord::Admitted(key(4)),
            ReplayRecord::Forgotten(key(2)),
            ReplayRecord::Dropped(950),
        ] {
            bytes.extend(record.bytes());
        }
        assert_eq!(remembered(&bytes), (vec![key(1), key(3), key(4)], 950, 0));
        assert_eq!(remembered(b""), (vec![], 0, 0));
    }

    #[test]
    fn a_torn_end_loses_only_its_record() {
        let bytes = file();
        for length in 0..bytes.len() {
            let (keys, _, skipped) = remembered(&bytes[..length]);
            assert_eq!(keys.len(), (length / RECORD).saturating_sub(2), "{length}");
            assert_eq!(skipped, usize::from(length % RECORD != 0), "{length}");
        }
    }

    #[test]
    fn a_flipped_bit_loses_only_its_record() {
        let bytes = file();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(content) = read(&bytes) else {
                assert!(VERSION.contains(&(bit / 8)), "bit {bit}");
                continue;
            };
            assert_eq!(content.skipped, 1, "bit {bit}");
            let expected = if bit / 8 < 2 * RECORD { 3 } else { 2 };
            assert_eq!(content.replays.len(), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_file_of_a_later_version_is_refused() {
        let mut bytes = file();
        bytes[VERSION].copy_from_slice(b"2");
        assert_eq!(read(&bytes).unwrap_err(), Newer);
        let (keys, _, skipped) = remembered(&b"something else in this file ".repeat(20));
        assert!(keys.is_empty() && skipped > 5);
    }
}
