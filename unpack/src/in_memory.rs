//! Files of an archive in memory, for archives that are small or that a person unpacks.

use crate::{Sink, UnpackStop, unpack};
use fnd_wire::archive::{ArchiveRefusal, Format, Why};
use fnd_wire::unpack::Unpacked;
use std::io::{self, Cursor};

/// A file of a function, with its whole content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeFile {
    /// Its path in the function.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Whether somebody may execute it.
    pub executable: bool,
}

impl WholeFile {
    /// Returns a file that nobody executes.
    #[must_use]
    pub fn new(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            bytes: bytes.into(),
            executable: false,
        }
    }

    /// Returns a file that may be executed.
    #[must_use]
    pub fn program(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            executable: true,
            ..Self::new(path, bytes)
        }
    }
}

/// Returns all files of an archive, in its order.
///
/// # Errors
/// The archive is refused.
pub fn held(format: Format, archive: Vec<u8>) -> Result<Vec<WholeFile>, ArchiveRefusal> {
    let mut held = ArchiveFiles(Vec::new());
    match unpack(format, &mut Cursor::new(archive), &mut held) {
        Ok(()) => Ok(held.0),
        Err(UnpackStop::Refused(refusal)) => Err(refusal),
        // A sink in memory never fails.
        Err(UnpackStop::Sink(_)) => Err(Why::Unreadable.into()),
    }
}

struct ArchiveFiles(Vec<WholeFile>);

impl Sink for ArchiveFiles {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.0.push(WholeFile {
            executable: file.executable,
            ..WholeFile::new(&file.path, b"")
        });
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = self.0.last_mut() {
            file.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }
}
