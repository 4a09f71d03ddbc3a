//! Writes the files of an archive to a directory, for a function whose manifest the command line changes.

use crate::exit::{CommandFailure, Exit};
use fnd_unpack::{Sink, UnpackStop, unpack};
use fnd_wire::archive::Format;
use fnd_wire::unpack::Unpacked;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Unpacks an archive to a new directory.
///
/// # Errors
/// The archive is refused, or a file cannot be written.
pub(super) fn write(archive: &Path, format: Format, to: &Path) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| CommandFailure::usage(format!("failed to unpack `{}`: {error}", archive.display()));
    fs::create_dir(to).map_err(failed)?;
    let mut directory = UnpackedDirectory {
        path: to.to_path_buf(),
        current: None,
    };
    match unpack(format, &mut File::open(archive).map_err(failed)?, &mut directory) {
        Ok(()) => Ok(()),
        Err(UnpackStop::Sink(error)) => Err(failed(error)),
        Err(UnpackStop::Refused(refusal)) => {
            let (message, help) = refusal.words();
            let message = format!("`{}`: {message}", archive.display());
            Err(CommandFailure::new(Exit::InvalidManifest, message).help(help))
        }
    }
}

struct UnpackedDirectory {
    path: PathBuf,
    current: Option<File>,
}

impl Sink for UnpackedDirectory {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        let path = self.path.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        self.current = Some(created);
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.current.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }
}
