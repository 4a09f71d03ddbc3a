//! Reads the file system as this process sees it. The judge has no files: all other code of this crate opens none.

use super::CheckedFiles;
use crate::function::listing::{DirectoryEntry, EntryKind};
use crate::judge::judged;
use crate::regular_file;
use fnd_unpack::{Sink, UnpackStop, unpack};
use fnd_wire::archive::{ArchiveRefusal, Format, Why};
use fnd_wire::naming::BOOTSTRAP;
use fnd_wire::plan::{CODE_MAX, JudgedFile};
use fnd_wire::unpack::Unpacked;
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The file system as this process sees it.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl CheckedFiles for Disk {
    fn list(&self, directory: &str) -> Result<Vec<DirectoryEntry>, String> {
        let mut result = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            // A link that leads nowhere, and a file that was deleted meanwhile, are neither file nor directory. They
            // are no reason to give up the whole directory.
            let kind = kind(&entry.path()).unwrap_or(EntryKind::Other);
            result.push(DirectoryEntry {
                name: entry.file_name().into_vec(),
                kind,
            });
        }
        Ok(result)
    }

    fn read(&self, path: &str, max: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = regular_file::open(path.as_ref()).and_then(|file| file.take(max as u64).read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(|error| error.to_string())
    }

    fn kind(&self, path: &str) -> Result<EntryKind, String> {
        kind(Path::new(path)).map_err(|error| error.to_string())
    }

    fn unpack(&self, path: &str, format: Format) -> Result<Vec<JudgedFile>, ArchiveRefusal> {
        let mut archive = regular_file::open(path.as_ref()).map_err(|_| Why::Unreadable)?;
        let mut kept = FileHeads {
            files: Vec::new(),
            room: SHOWN_MAX,
        };
        match unpack(format, &mut archive, &mut kept) {
            Ok(()) => {}
            Err(UnpackStop::Refused(refusal)) => return Err(refusal),
            Err(UnpackStop::Sink(_)) => return Err(Why::Unreadable.into()), // it never fails
        }
        kept.files.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(kept.files)
    }
}

/// Bytes of an archive that are kept, all files together. The spawner sends the judge as many.
const SHOWN_MAX: usize = 8 << 20;

/// Keeps the first bytes of each file. The owner is not known here, so each one counts as root's.
struct FileHeads {
    files: Vec<JudgedFile>,
    room: usize,
}

impl Sink for FileHeads {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.files.push(judged(&file.path, Vec::new(), file.executable));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = self.files.last_mut() {
            let room = self.room.min(CODE_MAX.saturating_sub(file.bytes.0.len()));
            let front = bytes.get(..room).unwrap_or(bytes);
            self.room -= front.len();
            file.bytes.0.extend_from_slice(front);
        }
        Ok(())
    }
}

/// Says whether a directory is a function, and no group of functions.
#[must_use]
pub fn is_function(directory: &Path) -> bool {
    let is_program = |about: Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
    directory.join("function.toml").is_file() || std::fs::metadata(directory.join(BOOTSTRAP)).is_ok_and(is_program)
}

fn kind(path: &Path) -> io::Result<EntryKind> {
    let metadata = std::fs::metadata(path)?;
    Ok(if metadata.is_file() {
        EntryKind::File {
            executable: metadata.permissions().mode() & 0o111 != 0,
        }
    } else if metadata.is_dir() {
        EntryKind::Directory {
            function: is_function(path),
        }
    } else {
        EntryKind::Other
    })
}
