//! Writes the archive.

use super::failed;
use crate::exit::{Exit, Failure};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// Archives consist of blocks of this many bytes.
const BLOCK: u64 = 512;

pub(super) struct Archive<W: Write> {
    builder: Builder<Counted<W>>,
    entries: u64,
    left_out: Vec<String>,
    /// Bytes of the current file that are not written yet.
    missing: u64,
    /// Bytes that fill the last block of the current file.
    padding: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> Self {
        Self {
            builder: Builder::new(Counted { to, bytes: 0 }),
            entries: 0,
            left_out: Vec::new(),
            missing: 0,
            padding: 0,
        }
    }

    /// Adds a file, or a directory with everything in it, if it is there.
    pub(super) fn add_if_there(&mut self, name: &str, path: &Path) -> Result<(), Failure> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("read", path, &error)),
            Ok(about) => self.add(name, path, &about),
        }
    }

    /// Notes that the archive does not have a file.
    pub(super) fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("left out: `{}` {why}", path.display()));
    }

    fn add(&mut self, name: &str, path: &Path, about: &Metadata) -> Result<(), Failure> {
        let kind = about.file_type();
        if kind.is_dir() {
            self.header(name, EntryType::Directory, 0, about)?;
            let mut names = Vec::new();
            for entry in std::fs::read_dir(path).map_err(|error| failed("read", path, &error))? {
                names.push(entry.map_err(|error| failed("read", path, &error))?.file_name());
            }
            names.sort();
            for below in names {
                let Some(text) = below.to_str() else {
                    self.left_out.push(format!(
                        "left out: the name of `{}` is not UTF-8",
                        path.join(&below).display()
                    ));
                    continue;
                };
                // A file that a function removed meanwhile is skipped.
                self.add_if_there(&format!("{name}/{text}"), &path.join(text))?;
            }
            return Ok(());
        }
        if kind.is_symlink() {
            let target = std::fs::read_link(path).map_err(|error| failed("read", path, &error))?;
            let mut header = header(EntryType::Symlink, 0, about);
            self.entries += 1;
            return self
                .builder
                .append_link(&mut header, name, target)
                .map_err(|error| unwritten(&error));
        }
        if !kind.is_file() {
            let what = if kind.is_socket() {
                "socket"
            } else if kind.is_fifo() {
                "pipe"
            } else {
                "device"
            };
            self.leave_out(path, &format!("is a {what}"));
            return Ok(());
        }
        // A function may replace the file by a link or a pipe at any time: no link is followed, and the open does not
        // wait.
        let mut options = File::options();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = match options.read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| failed("read", path, &error))?,
        };
        let about = file.metadata().map_err(|error| failed("read", path, &error))?;
        self.header(name, EntryType::Regular, about.len(), &about)?;
        (self.missing, self.padding) = (about.len(), padding(about.len()));
        let mut bytes = vec![0; PIECE];
        while self.missing > 0 {
            let count = file.read(&mut bytes).map_err(|error| failed("read", path, &error))?;
            // A file that grows keeps its first length; one that shrinks is filled with zeros.
            let most = usize::try_from(self.missing).unwrap_or(usize::MAX).min(PIECE);
            let count = if count == 0 {
                bytes.fill(0);
                most
            } else {
                count.min(most)
            };
            self.piece(&bytes[..count])?;
        }
        self.end_file()
    }

    fn header(&mut self, name: &str, kind: EntryType, size: u64, about: &Metadata) -> Result<(), Failure> {
        let mut header = header(kind, size, about);
        self.entries += 1;
        self.builder
            .append_data(&mut header, name, io::empty())
            .map_err(|error| unwritten(&error))
    }

    /// Begins a file of a known size, with the owner of a directory; its bytes follow in pieces.
    pub(super) fn begin_file(&mut self, name: &str, size: u64, owner: &Path) -> Result<(), Failure> {
        let about = std::fs::metadata(owner).map_err(|error| failed("read", owner, &error))?;
        let mut header = header(EntryType::Regular, size, &about);
        header.set_mode(0o600);
        self.entries += 1;
        (self.missing, self.padding) = (size, padding(size));
        self.builder
            .append_data(&mut header, name, io::empty())
            .map_err(|error| unwritten(&error))
    }

    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let missing = self.missing.checked_sub(bytes.len() as u64);
        self.missing = missing
            .ok_or_else(|| Failure::new(Exit::FunctionFailed, "fnd sent more of a database than it announced"))?;
        self.builder
            .get_mut()
            .write_all(bytes)
            .map_err(|error| unwritten(&error))
    }

    pub(super) fn end_file(&mut self) -> Result<(), Failure> {
        if self.missing > 0 {
            return Err(Failure::new(
                Exit::FunctionFailed,
                "fnd sent less of a database than it announced",
            ));
        }
        let zeros = vec![0; usize::try_from(self.padding).unwrap_or(0)];
        self.builder
            .get_mut()
            .write_all(&zeros)
            .map_err(|error| unwritten(&error))
    }

    /// Ends the archive. Returns the number of entries, the bytes, and what was left out.
    pub(super) fn finish(self) -> Result<(u64, u64, Vec<String>), Failure> {
        let mut to = self.builder.into_inner().map_err(|error| unwritten(&error))?;
        to.flush().map_err(|error| unwritten(&error))?;
        Ok((self.entries, to.bytes, self.left_out))
    }
}

fn header(kind: EntryType, size: u64, about: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(about.mode() & 0o777);
    header.set_uid(about.uid().into());
    header.set_gid(about.gid().into());
    header.set_mtime(u64::try_from(about.mtime()).unwrap_or(0));
    header
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::new(Exit::FunctionFailed, format!("failed to write the backup: {error}"))
}

/// Counts what is written.
struct Counted<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
