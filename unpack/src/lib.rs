//! Reads archives that are functions: `NAME.zip`, `NAME.tar` and compressed forms of it.
//!
//! Everything here reads hostile bytes. An archive of a function is unpacked in a child without files and network
//! (`fnd-helper --unpack`), and by `fndctl validate` as the person who asks. YAML of other systems may carry an archive; the
//! daemon, which has no privilege, unpacks that archive itself to report on an upload. This crate writes no file: files and
//! their bytes go to a [`Sink`]. The rules for names and sizes are those of [`fnd_wire::archive`].
//!
//! An archive is read twice. The first time finds everything that is wrong, and whether all files are in one directory; the
//! second time gives the files to the sink. So a sink gets no file of an archive that is refused, unless somebody changes the
//! archive in between.
//!
//! Files:
//! - `budget`: counts unpacked bytes, and stops an archive that unpacks to too much
//! - `compressed`: opens the compressed forms of a tar file
//! - `in_memory`: files in memory
//! - `names`: finds names that are in one another's way
//! - `tar`: the entries of a tar file
//! - `walk`: decides about each entry
//! - `zip`: the entries of a zip file
#![forbid(unsafe_code)]

mod budget;
mod compressed;
mod in_memory;
mod names;
mod tar;
mod walk;
mod zip;

#[cfg(test)]
mod tests;

pub use in_memory::{WholeFile, held};

use budget::Budget;
use fnd_wire::archive::{ArchiveRefusal, BYTES_MAX, Format, Why};
use fnd_wire::unpack::Unpacked;
use std::io::{self, Read, Seek, SeekFrom};
use walk::ArchiveWalk;

/// Takes the files of an archive.
pub trait Sink {
    /// Takes the beginning of a file; its bytes follow.
    ///
    /// # Errors
    /// If the file can't be taken; unpacking ends then.
    fn file(&mut self, file: &Unpacked) -> io::Result<()>;

    /// Takes the next bytes of the file, at most [`fnd_wire::unpack::DATA_MAX`].
    ///
    /// # Errors
    /// If the bytes can't be taken; unpacking ends then.
    fn data(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Why an archive was not unpacked.
#[derive(Debug)]
pub enum UnpackStop {
    /// The archive is refused.
    Refused(ArchiveRefusal),
    Sink(io::Error),
}

impl From<ArchiveRefusal> for UnpackStop {
    fn from(refusal: ArchiveRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Why> for UnpackStop {
    fn from(why: Why) -> Self {
        Self::Refused(why.into())
    }
}

/// Gives all files of an archive to the sink, in the order of the archive.
///
/// # Errors
/// [`UnpackStop`].
pub fn unpack(format: Format, archive: &mut (impl Read + Seek), sink: &mut dyn Sink) -> Result<(), UnpackStop> {
    let size = archive.seek(SeekFrom::End(0)).map_err(|error| unread(&error))?;
    if size > BYTES_MAX {
        return Err(Why::TooLarge.into());
    }
    // The first pass finds everything that is wrong, so the sink gets no file of a refused archive.
    let mut first = ArchiveWalk::new(None);
    read(format, archive, size, &mut first)?;
    let top = first.top()?;
    read(format, archive, size, &mut ArchiveWalk::new(Some((sink, top))))
}

fn read(
    format: Format,
    archive: &mut (impl Read + Seek),
    size: u64,
    walk: &mut ArchiveWalk<'_>,
) -> Result<(), UnpackStop> {
    archive.rewind().map_err(|error| unread(&error))?;
    let budget = Budget::new(size);
    match format {
        Format::Zip => zip::read(archive, size, budget, walk),
        // A file of another system is no archive, and other code reads it.
        Format::Foreign => Err(Why::OtherFormat.into()),
        _ => tar::read(compressed::open(format, archive)?, budget, walk),
    }
}

/// Returns the reason for an error of reading: the disk's, or that of a decoder, which means that the archive is damaged.
fn unread(error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Why::Memory,
        // Only an error of the kernel has a number. A decoder makes its errors itself.
        _ if error.raw_os_error().is_some() => Why::Unreadable,
        _ => Why::Damaged,
    }
}
