//! The entries of a zip file (APPNOTE.TXT of PKWARE), stored or deflated.
//!
//! The crate `zip` is not used, because it accepts what is refused here: entries of the same name (the last one wins), entries
//! that share their bytes, local headers that differ from the directory, and data in front of, between or behind the entries.
//! And it holds the whole directory before anybody can count the entries. Here the entries must fill the file from its
//! beginning to its directory, and nothing may be left over.

use crate::budget::Budget;
use crate::walk::{ArchiveEntry, ArchiveEntryKind, ArchiveWalk, named};
use crate::{UnpackStop, unread};
use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use fnd_wire::archive::{ArchiveRefusal, ENTRIES_MAX, Why};
use fnd_wire::unpack::DATA_MAX;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Length of the end record without its comment, and of the longest comment.
const END_LENGTH: u64 = 22;
const COMMENT_MAX: u64 = 65_535;
/// Largest directory in bytes: that of 10,000 entries with long names.
const DIRECTORY_MAX: u64 = 16 << 20;
/// Lengths that a record behind an entry's data may have: with and without a signature, with numbers of 4 and of 8 bytes.
const BEHIND: [u64; 4] = [12, 16, 20, 24];

/// Bits of the flags.
const ENCRYPTED: u16 = 1 << 0 | 1 << 6 | 1 << 13;
const BEHIND_DATA: u16 = 1 << 3;
const PATCH: u16 = 1 << 5;

/// An entry of the directory.
struct ZipEntry {
    name: Vec<u8>,
    flags: u16,
    method: u16,
    sum: u32,
    packed: u64,
    length: u64,
    offset: u64,
    /// Type and permissions as in `st_mode`; 0 from systems without them.
    mode: u32,
}

/// Goes through all entries, in the order of their data.
///
/// # Errors
/// [`UnpackStop`].
pub(crate) fn read(
    archive: &mut (impl Read + Seek),
    size: u64,
    mut budget: Budget,
    walk: &mut ArchiveWalk<'_>,
) -> Result<(), UnpackStop> {
    let mut archive = BufReader::with_capacity(DATA_MAX, archive);
    let (mut listed, directory) = directory(&mut archive, size)?;
    // The directory may have any order. That nothing lies between the entries can be checked in the order of their data
    // only.
    listed.sort_by_key(|entry| entry.offset);
    let mut position = 0;
    let mut behind = false;
    for entry in &listed {
        follows(position, entry.offset, behind)?;
        let kind = kind(entry);
        let method = match entry.method {
            _ if entry.flags & ENCRYPTED != 0 => Some(Why::Encrypted),
            0 | 8 if entry.flags & PATCH == 0 => None,
            _ => Some(Why::Method),
        };
        let wanted = walk.entry(&ArchiveEntry {
            name: &entry.name,
            kind,
            mode: entry.mode & 0o7777,
            length: entry.length,
            unreadable: method,
        })?;
        let damaged = |why: Why| ArchiveRefusal {
            entry: Some(named(&entry.name)),
            why,
        };
        let begin = local(&mut archive, entry).map_err(damaged)?;
        position = begin.saturating_add(entry.packed);
        if position > directory {
            return Err(damaged(Why::Damaged).into());
        }
        behind = entry.flags & BEHIND_DATA != 0;
        if wanted {
            content(&mut archive, entry, &mut budget, walk).map_err(|broken| match broken {
                Broken::Stop(stop) => stop,
                Broken::Entry(why) => damaged(why).into(),
            })?;
        }
    }
    Ok(follows(position, directory, behind)?)
}

/// Checks that nothing lies between two parts of the file but a record that belongs to the first one.
fn follows(end: u64, begin: u64, behind: bool) -> Result<(), Why> {
    let between = begin.checked_sub(end).ok_or(Why::Damaged)?;
    let fits = between == 0 || (behind && BEHIND.contains(&between));
    if fits { Ok(()) } else { Err(Why::Damaged) }
}

enum Broken {
    Stop(UnpackStop),
    Entry(Why),
}

/// Passes on an entry's content.
fn content(
    archive: &mut impl BufRead,
    entry: &ZipEntry,
    budget: &mut Budget,
    walk: &mut ArchiveWalk<'_>,
) -> Result<(), Broken> {
    let mut packed = archive.take(entry.packed);
    let (mut sum, mut length) = (Hasher::new(), 0);
    let mut buffer = vec![0; DATA_MAX];
    // The decoder borrows `packed`, whose rest is compared afterwards.
    {
        let mut content: Box<dyn Read + '_> = match entry.method {
            0 => Box::new(&mut packed),
            _ => Box::new(DeflateDecoder::new(&mut packed)),
        };
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count.map_err(|error| Broken::Entry(unread(&error)))?,
            };
            budget.use_up(count).map_err(|why| Broken::Stop(why.into()))?;
            let bytes = buffer.get(..count).unwrap_or_default();
            length += count as u64;
            // This comes before the sink gets the bytes, so an entry is never longer than it has stated.
            if length > entry.length {
                return Err(Broken::Entry(Why::Damaged));
            }
            sum.update(bytes);
            walk.data(bytes).map_err(Broken::Stop)?;
        }
    }
    // All that belongs to the entry was used, and it is what the directory says.
    let whole = packed.limit() == 0 && length == entry.length && sum.finalize() == entry.sum;
    if whole {
        Ok(())
    } else {
        Err(Broken::Entry(Why::Damaged))
    }
}

/// Reads the local header of an entry, which must not differ from the directory; returns where the data begins.
fn local(archive: &mut (impl Read + Seek), entry: &ZipEntry) -> Result<u64, Why> {
    let failed = |error: io::Error| unread(&error);
    archive.seek(SeekFrom::Start(entry.offset)).map_err(failed)?;
    let mut fields = [0; 30];
    archive.read_exact(&mut fields).map_err(failed)?;
    let mut fields = Fields(&fields);
    let is_local = fields.take(4)? == LOCAL;
    fields.u16()?; // the version that is needed
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.u32()?; // time and date
    let (sum, packed, length) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (name_length, extra) = (fields.u16()?, fields.u16()?);
    let mut name = vec![0; name_length.into()];
    archive.read_exact(&mut name).map_err(failed)?;
    let skipped = io::copy(&mut archive.by_ref().take(extra.into()), &mut io::sink()).map_err(failed)?;
    // With a record behind the data, or with numbers of 8 bytes, the numbers here say nothing.
    let says = |found: u32, known: u64| u64::from(found) == known || found == u32::MAX;
    let fits =
        flags & BEHIND_DATA != 0 || (sum == entry.sum && says(packed, entry.packed) && says(length, entry.length));
    if is_local
        && flags == entry.flags
        && method == entry.method
        && name == entry.name
        && fits
        && skipped == extra.into()
    {
        Ok(entry.offset + 30 + u64::from(name_length) + u64::from(extra))
    } else {
        Err(Why::Damaged)
    }
}

/// Reads the directory; returns its entries and where it begins.
fn directory(archive: &mut (impl Read + Seek), size: u64) -> Result<(Vec<ZipEntry>, u64), UnpackStop> {
    let failed = |error: io::Error| unread(&error);
    let mut magic = [0; 4];
    archive.rewind().map_err(failed)?;
    archive
        .read_exact(&mut magic)
        .ok()
        // An archive without entries begins with its end.
        .filter(|()| [LOCAL, END].contains(&magic.as_slice()))
        .ok_or(Why::OtherFormat)?;
    // A comment of unknown length may follow the end record, so the record is searched in all bytes that it can be in.
    let start = size.saturating_sub(END_LENGTH + COMMENT_MAX);
    archive.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut tail = Vec::new();
    archive.read_to_end(&mut tail).map_err(failed)?;
    let ZipEnd { offset, length, count } = end(&tail, start)?;
    if length > DIRECTORY_MAX {
        return Err(Why::TooMany.into());
    }
    archive.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = Vec::new();
    archive.take(length).read_to_end(&mut bytes).map_err(failed)?;
    let mut fields = Fields(&bytes);
    let mut listed = Vec::new();
    while !fields.0.is_empty() {
        listed.push(fields.listed()?);
        // The count is compared while entries are read, so that it bounds the memory.
        if listed.len() > count {
            return Err(Why::Damaged.into());
        }
    }
    if listed.len() == count {
        Ok((listed, offset))
    } else {
        Err(Why::Damaged.into())
    }
}

struct ZipEnd {
    offset: u64,
    length: u64,
    count: usize,
}

/// Finds the end record in the last bytes of the file, which begin at `start`: the last one whose comment ends with the file, and
/// whose directory ends where it begins.
fn end(tail: &[u8], start: u64) -> Result<ZipEnd, Why> {
    let mut why = Why::Damaged;
    for at in (0..tail.len().saturating_sub(21)).rev() {
        let mut fields = Fields(tail.get(at..).unwrap_or_default());
        if fields.take(4)? != END {
            continue;
        }
        let disks = (fields.u16()?, fields.u16()?);
        let (here, count) = (fields.u16()?, fields.u16()?);
        let (length, offset) = (fields.u32()?, fields.u32()?);
        if usize::from(fields.u16()?) != fields.0.len() {
            continue;
        }
        if usize::from(count) > ENTRIES_MAX {
            return Err(Why::TooMany);
        }
        let is_zip64 = length == u32::MAX || offset == u32::MAX;
        if disks != (0, 0) || here != count || is_zip64 {
            // The comment may contain something like an end record, so the search goes on.
            why = Why::Unsupported;
            continue;
        }
        if u64::from(offset) + u64::from(length) == start + at as u64 {
            return Ok(ZipEnd {
                offset: offset.into(),
                length: length.into(),
                count: count.into(),
            });
        }
    }
    Err(why)
}

/// Returns what an entry is. The type is known from Unix systems; a slash at the end tells a directory.
fn kind(entry: &ZipEntry) -> ArchiveEntryKind {
    let is_slashed = entry.name.ends_with(b"/") && entry.length == 0;
    match entry.mode & 0o170_000 {
        0o040_000 => ArchiveEntryKind::Directory,
        0 | 0o100_000 if is_slashed => ArchiveEntryKind::Directory,
        0 | 0o100_000 => ArchiveEntryKind::File,
        0o120_000 => ArchiveEntryKind::Other(Why::SymbolicLink),
        0o020_000 | 0o060_000 => ArchiveEntryKind::Other(Why::Device),
        0o010_000 => ArchiveEntryKind::Other(Why::Fifo),
        0o140_000 => ArchiveEntryKind::Other(Why::Socket),
        _ => ArchiveEntryKind::Other(Why::OtherType),
    }
}

/// Numbers and texts of a record that are not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Why> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Why::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u32, Why> {
        Ok(self
            .take(count)?
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn u16(&mut self) -> Result<u16, Why> {
        u16::try_from(self.number(2)?).map_err(|_| Why::Damaged)
    }

    fn u32(&mut self) -> Result<u32, Why> {
        self.number(4)
    }

    /// Reads an entry of the directory.
    fn listed(&mut self) -> Result<ZipEntry, Why> {
        if self.take(4)? != CENTRAL {
            return Err(Why::Damaged);
        }
        let system = self.u16()? >> 8;
        self.u16()?; // the version that is needed
        let (flags, method) = (self.u16()?, self.u16()?);
        self.u32()?; // time and date
        let (sum, packed, length) = (self.u32()?, self.u32()?, self.u32()?);
        let (name, extra, comment) = (self.u16()?, self.u16()?, self.u16()?);
        let disk = self.u16()?;
        self.u16()?; // attributes of the content
        let (attributes, offset) = (self.u32()?, self.u32()?);
        let name = self.take(name.into())?.to_vec();
        self.take(extra.into())?;
        self.take(comment.into())?;
        // This value says that the number is in an extra field (ZIP64), which an archive below 512 MiB does not need.
        if disk != 0 || [packed, length, offset].contains(&u32::MAX) {
            return Err(Why::Unsupported);
        }
        // 3 is Unix and 19 is macOS; both keep the permission bits in the upper half.
        let mode = if [3, 19].contains(&system) { attributes >> 16 } else { 0 };
        Ok(ZipEntry {
            name,
            flags,
            method,
            sum,
            packed: packed.into(),
            length: length.into(),
            offset: offset.into(),
            mode,
        })
    }
}
