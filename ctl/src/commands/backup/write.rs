//! Writes the archive.

use crate::common::copy::names;
use crate::common::failed;
use crate::exit::CommandFailure;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// Archives consist of blocks of this many bytes.
const BLOCK: u64 = 512;

/// Most levels of directories, each with two descriptors.
const DEPTH_MAX: u32 = 100;
/// Longest name in the archive: `restore` could not open a longer one.
const NAME_MAX: usize = 3_500;
/// Most files that are named as left out; any number of them may be.
const LEFT_OUT_MAX: usize = 1_000;
/// A file of at least this size of which less than a quarter is on the disk is left out: `truncate -s 1T` costs its owner
/// nothing, and would fill the disk of the backup.
const SPARSE_MIN: u64 = 64 << 20;

/// A file that was found.
struct BackupFile<'a> {
    /// Its name in the archive.
    name: &'a str,
    path: &'a Path,
    /// The user whose home it lies in, if it lies in one.
    owner: Option<u32>,
    /// How many more levels of directories are added.
    depth: u32,
}

pub(super) struct Archive<W: Write> {
    builder: Builder<CountedWriter<W>>,
    entries: u64,
    left_out: Vec<String>,
    /// How many files were left out.
    not_added: usize,
    /// Bytes of the current file that are not written yet.
    missing: u64,
    /// Bytes that fill the last block of the current file.
    padding: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> Self {
        Self {
            builder: Builder::new(CountedWriter { to, bytes: 0 }),
            entries: 0,
            left_out: Vec::new(),
            not_added: 0,
            missing: 0,
            padding: 0,
        }
    }

    /// Adds a file, or a directory with everything in it, if it is there.
    pub(super) fn add_if_there(&mut self, name: &str, path: &Path) -> Result<(), CommandFailure> {
        self.add_top(name, path, None)
    }

    fn add_top(&mut self, name: &str, path: &Path, owner: Option<u32>) -> Result<(), CommandFailure> {
        let found = BackupFile {
            name,
            path,
            owner,
            depth: DEPTH_MAX,
        };
        self.add_below(CWD, path.as_os_str(), &found)
    }

    /// Adds the homes of functions, if they are there. A function may change everything in its home at any time.
    pub(super) fn add_homes(&mut self, name: &str, homes: &Path) -> Result<(), CommandFailure> {
        let about = match std::fs::symlink_metadata(homes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            about => about.map_err(|error| failed("read", homes, &error))?,
        };
        self.header(name, EntryType::Directory, 0, &about)?;
        for home in sorted(homes)? {
            // The spawner names homes after functions, so a name that is not UTF-8 is no home.
            let (Some(text), path) = (home.to_str(), homes.join(&home)) else {
                continue;
            };
            // fnd may have removed the home since the directory was listed.
            let Ok(about) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            self.add_top(&format!("{name}/{text}"), &path, Some(about.uid()))?;
        }
        Ok(())
    }

    /// Notes that the archive does not have a file.
    pub(super) fn leave_out(&mut self, path: &Path, why: &str) {
        self.not_added += 1;
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(format!("left out: `{}` {why}", path.display()));
        }
    }

    /// Adds what a directory has by a name. Every step opens one name of an open directory, and follows no link: so whoever
    /// exchanges a directory of theirs for a link leads nowhere.
    fn add_below(&mut self, directory: impl AsFd, name: &OsStr, found: &BackupFile<'_>) -> Result<(), CommandFailure> {
        // With `O_PATH` the kernel opens no device, waits for no FIFO, and needs no right to read the file (open(2)).
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(directory, name, flags, Mode::empty()) {
            // A file that a function removed meanwhile is skipped.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => self.unread(found, &errno.into()),
            Ok(file) => self.add(&file.into(), found),
        }
    }

    /// A file that cannot be read is left out: its owner could keep everybody from having a backup. Only a user who lacks the
    /// right to read the files has to know that nothing is complete.
    fn unread(&mut self, found: &BackupFile<'_>, error: &io::Error) -> Result<(), CommandFailure> {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Err(failed("read", found.path, error));
        }
        self.leave_out(found.path, &format!("cannot be read: {error}"));
        Ok(())
    }

    fn add(&mut self, file: &File, found: &BackupFile<'_>) -> Result<(), CommandFailure> {
        let about = match file.metadata() {
            Ok(about) => about,
            Err(error) => return self.unread(found, &error),
        };
        let kind = about.file_type();
        if found.name.len() > NAME_MAX {
            self.leave_out(found.path, "has too long a path");
            return Ok(());
        }
        if kind.is_dir() {
            return self.add_directory(file, &about, found);
        }
        if kind.is_symlink() {
            // An empty name reads the open link itself (readlinkat(2)), so nothing can take its place meanwhile.
            let target = match readlinkat(file, c"", Vec::new()) {
                Ok(target) => target,
                Err(errno) => return self.unread(found, &errno.into()),
            };
            let mut header = header(EntryType::Symlink, 0, &about);
            self.entries += 1;
            let target = OsStr::from_bytes(target.as_bytes());
            let added = self.builder.append_link(&mut header, found.name, target);
            return added.map_err(|error| unwritten(&error));
        }
        if let Some(why) = unfit(&about, found.owner) {
            self.leave_out(found.path, &why);
            return Ok(());
        }
        // This path opens the file that was looked at, whatever its name means by now. With `O_NONBLOCK` a lease makes
        // nobody wait.
        let known = format!("/proc/self/fd/{}", file.as_raw_fd());
        match File::options().read(true).custom_flags(libc::O_NONBLOCK).open(known) {
            Ok(opened) => self.add_file(opened, &about, found),
            Err(error) => self.unread(found, &error),
        }
    }

    fn add_directory(
        &mut self,
        directory: &File,
        about: &Metadata,
        found: &BackupFile<'_>,
    ) -> Result<(), CommandFailure> {
        let Some(depth) = found.depth.checked_sub(1) else {
            self.leave_out(found.path, &format!("lies more than {DEPTH_MAX} levels deep"));
            return Ok(());
        };
        // A descriptor of `O_PATH` cannot be read, so the directory is opened once more, through itself.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let names = openat(directory, c".", flags, Mode::empty()).and_then(|opened| names(&opened));
        let names = match names {
            Ok(names) => names,
            Err(errno) => return self.unread(found, &errno.into()),
        };
        // The header comes after the names: a directory that cannot be listed must not be in the archive as an empty
        // one.
        self.header(found.name, EntryType::Directory, 0, about)?;
        for below in names {
            let path = found.path.join(&below);
            let Some(text) = below.to_str() else {
                self.leave_out(&path, "has a name that is not UTF-8");
                continue;
            };
            let inner = BackupFile {
                name: &format!("{}/{text}", found.name),
                path: &path,
                depth,
                ..*found
            };
            self.add_below(directory, &below, &inner)?;
        }
        Ok(())
    }

    fn add_file(&mut self, mut file: File, about: &Metadata, found: &BackupFile<'_>) -> Result<(), CommandFailure> {
        self.header(found.name, EntryType::Regular, about.len(), about)?;
        (self.missing, self.padding) = (about.len(), padding(about.len()));
        let mut bytes = vec![0; PIECE];
        let mut is_over = false;
        while self.missing > 0 {
            // A file that grows keeps its first length; one that shrinks is filled with zeros.
            let most = usize::try_from(self.missing).unwrap_or(usize::MAX).min(PIECE);
            let read = if is_over { Ok(most) } else { file.read(&mut bytes) };
            let count = read.unwrap_or_else(|error| {
                // The header with the length is written already. Without filling, a reader would take the next header
                // for content of this file.
                let why = format!("cannot be read to its end, which is zeros now: {error}");
                self.leave_out(found.path, &why);
                0
            });
            if count == 0 {
                bytes.fill(0);
                is_over = true;
            }
            self.piece(&bytes[..count.min(most)])?;
        }
        self.end_file()
    }

    fn header(&mut self, name: &str, kind: EntryType, size: u64, about: &Metadata) -> Result<(), CommandFailure> {
        self.add_header(name, header(kind, size, about))
    }

    /// Begins a file of a known size, with the owner of a directory; its bytes follow in pieces.
    pub(super) fn begin_file(&mut self, name: &str, size: u64, owner: &Path) -> Result<(), CommandFailure> {
        let about = std::fs::metadata(owner).map_err(|error| failed("read", owner, &error))?;
        let mut header = header(EntryType::Regular, size, &about);
        // The mode of the directory has execute bits, which a database must not have.
        header.set_mode(0o600);
        (self.missing, self.padding) = (size, padding(size));
        self.add_header(name, header)
    }

    fn add_header(&mut self, name: &str, mut header: Header) -> Result<(), CommandFailure> {
        self.entries += 1;
        // The builder writes only the header: it would want a reader that has all bytes, but they come in pieces.
        // `append_data` writes a name above 100 bytes as an entry of its own, which `append` does not.
        let added = self.builder.append_data(&mut header, name, io::empty());
        added.map_err(|error| unwritten(&error))
    }

    pub(super) fn piece(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        let missing = self.missing.checked_sub(bytes.len() as u64);
        self.missing =
            missing.ok_or_else(|| CommandFailure::failed("fnd sent more of a database than it announced"))?;
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandFailure> {
        let written = self.builder.get_mut().write_all(bytes);
        written.map_err(|error| unwritten(&error))
    }

    pub(super) fn end_file(&mut self) -> Result<(), CommandFailure> {
        if self.missing > 0 {
            return Err(CommandFailure::failed("fnd sent less of a database than it announced"));
        }
        self.write(&vec![0; usize::try_from(self.padding).unwrap_or(0)])
    }

    /// Ends the archive. Returns the number of entries, the bytes, and what was left out.
    pub(super) fn finish(mut self) -> Result<(u64, u64, Vec<String>), CommandFailure> {
        if let Some(more) = self.not_added.checked_sub(LEFT_OUT_MAX).filter(|more| *more > 0) {
            self.left_out.push(format!("left out: {more} more"));
        }
        let mut to = self.builder.into_inner().map_err(|error| unwritten(&error))?;
        to.flush().map_err(|error| unwritten(&error))?;
        Ok((self.entries, to.bytes, self.left_out))
    }
}

/// Returns why a file that is neither a directory nor a link is left out.
fn unfit(about: &Metadata, home_of: Option<u32>) -> Option<String> {
    let kind = about.file_type();
    if !kind.is_file() {
        let what = match kind {
            _ if kind.is_socket() => "socket",
            _ if kind.is_fifo() => "pipe",
            _ => "device",
        };
        return Some(format!("is a {what}"));
    }
    // Where the machine allows it (`fs.protected_hardlinks = 0`), a function can give a file that it may not read a name in
    // its home.
    if home_of.is_some_and(|owner| about.uid() != owner) && about.nlink() > 1 {
        let uid = about.uid();
        return Some(format!("belongs to the user {uid} and has another name elsewhere"));
    }
    let (len, stored) = (about.len(), about.blocks().saturating_mul(512));
    (len >= SPARSE_MIN && stored < len / 4).then(|| {
        format!("is sparse: {len} bytes, of which {stored} are on the disk; copy it with `cp --sparse=always`")
    })
}

/// Returns the names in a directory, sorted; none if it is not there.
fn sorted(path: &Path) -> Result<Vec<OsString>, CommandFailure> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()).and_then(|opened| names(&opened)) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        read => read.map_err(|errno| failed("read", path, &errno.into())),
    }
}

fn header(kind: EntryType, size: u64, about: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    // The function chose the modes in its home, and root restores the files: so set-user-ID bits are left out.
    header.set_mode(about.mode() & 0o777);
    header.set_uid(about.uid().into());
    header.set_gid(about.gid().into());
    // `set_mtime` takes no time before 1970.
    header.set_mtime(u64::try_from(about.mtime()).unwrap_or(0));
    header
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}

fn unwritten(error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("failed to write the backup: {error}"))
}

/// Counts what is written.
struct CountedWriter<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for CountedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{lchown, symlink};

    /// Returns the names in an archive of a home, and what was left out.
    fn archived(homes: &Path) -> (Vec<String>, String, u64) {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.add_homes("home", homes).unwrap();
        let (_, size, left_out) = archive.finish().unwrap();
        let mut read = tar::Archive::new(bytes.as_slice());
        let name = |entry: io::Result<tar::Entry<'_, &[u8]>>| entry.unwrap().path().unwrap().display().to_string();
        (read.entries().unwrap().map(name).collect(), left_out.join("\n"), size)
    }

    /// A function prepares its home so that root's backup would follow it elsewhere, fill the disk, or never end.
    #[test]
    fn a_home_cannot_lead_the_backup_elsewhere_nor_fill_the_disk_nor_end_it() {
        let root = tempfile::tempdir().unwrap();
        let homes = root.path().join("homes");
        let home = homes.join("f");
        fs::create_dir_all(home.join("inner")).unwrap();
        fs::write(home.join("kept"), "x").unwrap();
        let secrets = root.path().join("secrets");
        fs::create_dir(&secrets).unwrap();
        fs::write(secrets.join("key"), "secret").unwrap();
        symlink(&secrets, home.join("link")).unwrap();
        File::create(home.join("huge")).unwrap().set_len(2 << 30).unwrap();
        rustix::fs::mkfifoat(CWD, home.join("fifo"), Mode::RUSR).unwrap();
        // Deeper than a path can be long.
        let mut at: OwnedFd = File::open(&home).unwrap().into();
        for _ in 0..150 {
            let name = "d".repeat(200);
            rustix::fs::mkdirat(&at, &*name, Mode::RWXU).unwrap();
            at = openat(&at, &*name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            fs::hard_link(secrets.join("key"), home.join("theirs")).unwrap();
            ["", "kept", "inner"]
                .iter()
                .for_each(|name| lchown(home.join(name), Some(12_001), None).unwrap());
        }
        let (names, left_out, size) = archived(&homes);
        let short: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !name.contains("ddd"))
            .collect();
        assert_eq!(short, ["home", "home/f", "home/f/inner", "home/f/kept", "home/f/link"]);
        for what in ["huge` is sparse", "fifo` is a pipe", "has too long a path"] {
            assert!(left_out.contains(what), "{what}: {left_out}");
        }
        assert_eq!(
            left_out.contains("theirs` belongs to the user 0"),
            is_root,
            "{left_out}"
        );
        assert!(size < 1 << 20, "{size}");
        // The directory that `home` names is exchanged for a link: nothing behind it is read.
        fs::remove_dir(home.join("inner")).unwrap();
        symlink(&secrets, home.join("inner")).unwrap();
        assert!(!archived(&homes).0.iter().any(|name| name.contains("key")));
    }
}
