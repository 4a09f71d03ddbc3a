//! The entries of a tar file: ustar, with long names as GNU tar and pax write them.
//!
//! The crate `tar` is used for single headers only. Its own handling of long names reads headers of any length into memory,
//! and takes a file that was cut off between two entries for a complete one.

use crate::UnpackStop;
use crate::budget::{Budget, BudgetedReader};
use crate::walk::{ArchiveEntry, ArchiveEntryKind, ArchiveWalk, named};
use ::tar::{Archive, EntryType, PaxExtensions};
use fnd_wire::archive::{ArchiveRefusal, Why};
use fnd_wire::unpack::DATA_MAX;
use std::io::{self, Read};

/// Size of a block.
const BLOCK: u64 = 512;
/// Largest header that describes another one.
const HEADER_MAX: u64 = 64 << 10;

/// The facts about the next entry that headers give.
#[derive(Default)]
struct Described {
    name: Option<Vec<u8>>,
    /// Why this entry is refused.
    refused: Option<Why>,
}

/// Goes through all entries.
///
/// # Errors
/// [`UnpackStop`].
pub(crate) fn read(tar: impl Read, budget: Budget, walk: &mut ArchiveWalk<'_>) -> Result<(), UnpackStop> {
    let mut tar = BudgetedReader::new(tar, budget);
    let mut next = 0;
    let done = entries(&mut tar, walk, &mut next);
    done.map_err(|stop| match stop {
        Broken::Stop(stop) => stop,
        // No entry was read, so this is no tar file at all.
        Broken::Read(error) if next == 0 && tar.why(&error) == Why::Damaged => Why::OtherFormat.into(),
        Broken::Read(error) => tar.why(&error).into(),
    })?;
    // Two blocks of zeros end a tar file, and programs may add further zeros. The blocks are looked for here, because
    // the crate takes a file that ends between two entries for complete.
    let mut buffer = vec![0; DATA_MAX];
    let mut is_zero = true;
    loop {
        match tar.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => is_zero &= buffer.iter().take(count).all(|byte| *byte == 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(tar.why(&error).into()),
        }
    }
    if is_zero && tar.count() >= next + 2 * BLOCK {
        Ok(())
    } else {
        Err(Why::Damaged.into())
    }
}

/// Why going through the entries ended.
enum Broken {
    Stop(UnpackStop),
    Read(io::Error),
}

impl<T: Into<UnpackStop>> From<T> for Broken {
    fn from(stop: T) -> Self {
        Self::Stop(stop.into())
    }
}

fn entries(tar: &mut impl Read, walk: &mut ArchiveWalk<'_>, next: &mut u64) -> Result<(), Broken> {
    let mut archive = Archive::new(tar);
    let mut described = Described::default();
    let mut buffer = vec![0; DATA_MAX];
    // `raw` keeps the crate from reading long names by itself, for which it has no limit.
    for entry in archive.entries().map_err(Broken::Read)?.raw(true) {
        let mut entry = entry.map_err(Broken::Read)?;
        let length = entry.size();
        // A hostile header may state a length that has no multiple in 64 bits.
        let padded = length.checked_next_multiple_of(BLOCK).ok_or(Why::Damaged)?;
        *next = entry.raw_file_position().saturating_add(padded);
        let kind = entry.header().entry_type();
        if is_about_others(kind) {
            walk.count()?;
            // Its text is read into memory whole.
            if length > HEADER_MAX {
                return Err(Why::Unsupported.into());
            }
            let mut text = Vec::new();
            entry.read_to_end(&mut text).map_err(Broken::Read)?;
            describe(kind, text, &mut described)?;
            continue;
        }
        let Described { name, refused } = std::mem::take(&mut described);
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let mode = entry.header().mode().map_err(|_| damaged(&name))?;
        let is_slashed = name.ends_with(b"/") && length == 0;
        let about = ArchiveEntry {
            name: &name,
            kind: refused.map_or_else(|| kind_of(kind, is_slashed), ArchiveEntryKind::Other),
            mode,
            length,
            unreadable: None,
        };
        if !walk.entry(&about)? {
            continue;
        }
        let mut missing = length;
        loop {
            let count = entry.read(&mut buffer).map_err(Broken::Read)?;
            if count == 0 {
                break;
            }
            missing = missing.saturating_sub(count as u64);
            walk.data(buffer.get(..count).unwrap_or_default())?;
        }
        // Where the archive ends within a file, the reader gives no further bytes, and no error.
        if missing > 0 {
            return Err(Why::Damaged.into());
        }
    }
    if described.name.is_some() || described.refused.is_some() {
        return Err(Why::Damaged.into()); // no entry follows
    }
    Ok(())
}

fn damaged(name: &[u8]) -> ArchiveRefusal {
    ArchiveRefusal {
        entry: Some(named(name)),
        why: Why::Damaged,
    }
}

fn is_about_others(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

/// Takes what a header says about the next entry. Global headers have comments, such as the commit of `git archive`.
fn describe(kind: EntryType, mut text: Vec<u8>, described: &mut Described) -> Result<(), Why> {
    if kind.is_gnu_longname() {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(end);
        return if described.name.replace(text).is_some() {
            Err(Why::Damaged)
        } else {
            Ok(())
        };
    }
    if !kind.is_pax_local_extensions() {
        return Ok(());
    }
    for extension in PaxExtensions::new(&text) {
        let extension = extension.map_err(|_| Why::Damaged)?;
        match extension.key_bytes() {
            b"path" => {
                let before = described.name.replace(extension.value_bytes().to_vec());
                before.map_or(Ok(()), |_| Err(Why::Damaged))?;
            }
            // Only files of 8 GiB need it.
            b"size" => described.refused = Some(Why::Unsupported),
            key if key.starts_with(b"GNU.sparse.") => described.refused = Some(Why::OtherType),
            // Other entries, such as times and owners, have no effect on a function.
            _ => {}
        }
    }
    Ok(())
}

fn kind_of(kind: EntryType, is_slashed: bool) -> ArchiveEntryKind {
    match kind {
        // Before there was a type for directories, a slash told them.
        EntryType::Regular if is_slashed => ArchiveEntryKind::Directory,
        EntryType::Regular => ArchiveEntryKind::File,
        EntryType::Directory => ArchiveEntryKind::Directory,
        EntryType::Symlink => ArchiveEntryKind::Other(Why::SymbolicLink),
        EntryType::Link => ArchiveEntryKind::Other(Why::HardLink),
        EntryType::Char | EntryType::Block => ArchiveEntryKind::Other(Why::Device),
        EntryType::Fifo => ArchiveEntryKind::Other(Why::Fifo),
        _ => ArchiveEntryKind::Other(Why::OtherType),
    }
}
