//! Has helpers copy a large file or unpack an archive, and takes their results. The helper writes files to the staging
//! directory.
//!
//! No code here reads an archive: `fnd-helper --unpack` does it, a child without user, files or network. This side gives it the
//! open archive, and takes files under names that it checks itself.

use super::*;
use crate::clock::now;
use crate::process::{reap, unprivileged};
use fnd_wire::archive::ArchiveRefusal;
use fnd_wire::unpack::{DATA_MAX, Received, Receiver, Stopped, Unpacked};
use std::ffi::CString;
use std::io::{BufReader, Seek as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;

impl Snapshot {
    /// Returns the function that copies the large file or unpacks the archive in a helper, and the descriptor that the
    /// helper has to keep for it; also whether it is an archive.
    ///
    /// # Errors
    /// If a descriptor can't be duplicated.
    pub fn copier(&self, program: &Path, root: bool) -> io::Result<(bool, InstallWork)> {
        let (relative, opened) = self.large.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, report) = (opened.file.try_clone()?, self.report());
        let kept = file.as_raw_fd();
        let Some(format) = self.packed() else {
            let path = self.staged(relative);
            return Ok((false, (kept, Box::new(move || write_report(&report, stage(&file, &path))))));
        };
        let (program, code) = (program.to_owned(), self.begun().join("code"));
        let unpacker = Unpacker { program, root, format, code };
        Ok((true, (kept, Box::new(move || write_report(&report, unpacker.unpack(&file))))))
    }

    /// Returns the format of the function's archive; none if its code is something else.
    pub(super) fn format(&self) -> Option<Format> {
        let source = &self.install.source;
        let foreign = naming::is_foreign(source).then_some(Format::Foreign);
        foreign.or_else(|| Format::of(source)).filter(|_| !self.install.directory_form)
    }

    /// Returns the format of an archive that is to be unpacked. A stored version is unpacked, and so is one whose code is
    /// fetched.
    pub(super) fn packed(&self) -> Option<Format> {
        self.fetched.or_else(|| self.format().filter(|_| self.stored.is_none() && self.source.is_none()))
    }

    /// Goes on with code that was fetched to a tree: one file, to be [copied or unpacked](Self::copier).
    ///
    /// # Errors
    /// If it can't be opened, or if there is none.
    pub fn add_source(&mut self, tree: Version, places: &Places) -> Result<(), Problem> {
        let dir = trees::place(places, &tree);
        let failed = |why: String| problem(&self.shown, format!("failed to open its code: {why}"), "fetch it again");
        let entries = places::entries(&dir).map_err(|error| failed(error.to_string()))?;
        let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
        let name = fetched_file(names).ok_or_else(|| failed("there is none".to_owned()))?;
        let opened = File::open(dir.join(&name)).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = opened.map_err(|error| failed(error.to_string()))?;
        let shown = self.shown.clone(); // nobody knows the tree's path
        (self.source, self.fetched) = (Some(tree), Format::of(&name));
        self.large = Some((name, OpenedSource { file, meta, shown, trusted: self.trusted }));
        Ok(())
    }

    /// Takes the result of the helper that unpacked the archive.
    fn unpacked(&mut self, opened: &OpenedSource) -> Result<(), Problem> {
        let failed = |why: &str| problem(&opened.shown, format!("failed to unpack it: {why}"), "copy it again");
        let (files, refused) = read_report::<Contents>(&self.report()).map_err(|why| failed(&why))?;
        // The child has read the archive twice, and somebody may have changed it in between.
        opened.unchanged(opened.meta.len())?;
        if let Some((message, help)) = refused.map(|refusal| refusal.words()) {
            return Err(problem(&opened.shown, message, help));
        }
        // Fetched code does not bring a manifest of its own: the one beside the source decides about rights.
        let is_new = |file: &InstalledCode| self.source.is_none() || file.relative != "function.toml";
        let trusted = |file: InstalledCode| InstalledCode { trusted: opened.trusted, ..file };
        self.files.extend(files.into_iter().filter(is_new).map(trusted));
        self.read_manifest()
    }

    /// Takes the result of the helper that copied the large file or unpacked the archive.
    ///
    /// # Errors
    /// Why the file was not copied, or the archive not unpacked.
    pub fn copied(&mut self) -> Result<(), Problem> {
        let Some((relative, opened)) = self.large.take() else { return Ok(()) };
        if self.packed().is_some() {
            self.fetched = None;
            return self.unpacked(&opened);
        }
        let (length, digest) = read_report::<(u64, [u8; 32])>(&self.report()).map_err(|why| uncopied(&opened, &why))?;
        opened.unchanged(length)?;
        self.add(relative, &opened, digest, None);
        Ok(())
    }
}

/// Returns the file that was fetched, of the names in its tree in any order: the others are fnd's own.
fn fetched_file(mut names: impl Iterator<Item = String>) -> Option<String> {
    names.find(|name| ![COMPLETE, TREE_SIZE].contains(&name.as_str()))
}

pub(super) fn uncopied(opened: &OpenedSource, why: &str) -> Problem {
    problem(&opened.shown, format!("failed to copy it: {why}"), "check the file and the free space on the disk")
}

/// Copies a file; returns length and digest of the copy.
pub(super) fn stage(from: &File, to: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut copy = create(to)?;
    let length = io::copy(&mut from.take(BYTES_MAX), &mut copy)?;
    // The copy is hashed and not the source, which may change meanwhile: the copy is judged and installed.
    copy.rewind()?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        let read = copy.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, digest.finalize().into()));
        }
        digest.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Writes the result of a helper's work; returns the helper's exit code.
pub fn write_report<T: Wire>(report: &Path, result: io::Result<T>) -> i32 {
    let result = result.map_err(|error| error.to_string());
    let outcome = (result.as_ref().ok().map(Wire::to_wire).map(Bytes), result.err().unwrap_or_default());
    i32::from(write(report, &outcome.to_wire(), 0o600).is_err())
}

/// Returns the result of a helper's work.
///
/// # Errors
/// Why the work failed, for people.
pub fn read_report<T: Wire>(report: &Path) -> Result<T, String> {
    let bytes = fs::read(report).map_err(|_| "the helper ended before it finished".to_owned())?;
    let _ = fs::remove_file(report);
    let outcome = <(Option<Bytes>, String)>::from_wire(&bytes).map_err(|error| error.to_string())?;
    let value = outcome.0.ok_or(outcome.1)?;
    T::from_wire(&value.0).map_err(|error| error.to_string())
}

/// How long the child may take. It reads an archive to its end before it sends the first file.
const LASTS: Duration = Duration::from_secs(100);

/// The files of an archive, not trusted yet, or why the archive is refused.
type Contents = (Vec<InstalledCode>, Option<ArchiveRefusal>);

struct Unpacker {
    program: PathBuf,
    /// Whether the child can have a user of its own.
    root: bool,
    /// The format of the archive.
    format: Format,
    /// Where files are written, unless they are held in memory.
    code: PathBuf,
}

impl Unpacker {
    /// Unpacks an open archive.
    ///
    /// # Errors
    /// If the child can't be started, breaks a rule or takes too long, or if writing fails.
    fn unpack(&self, archive: &File) -> io::Result<Contents> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LASTS))?;
        let (argument, image) = (format!("--unpack={}", self.format.suffix()), unprivileged::image(&self.program)?);
        let stdio = (archive.as_fd(), Some(theirs.as_fd()));
        let started = unprivileged::start(&image, vec![CString::new(argument)?], self.root, stdio);
        let child = started.map_err(|error| io::Error::other(error.to_string()))?;
        // With a copy of the child's end here, the end of the child would not end the reading.
        drop(theirs);
        let contents = self.receive(ours);
        reap::end(&child);
        contents
    }

    fn receive(&self, stream: UnixStream) -> io::Result<Contents> {
        let (mut input, mut receiver) = (BufReader::with_capacity(DATA_MAX, stream), Receiver::default());
        let (mut files, mut current, mut bytes, until) = (Vec::new(), None::<Writing>, 0, now() + LASTS);
        // The socket's timeout bounds one read only. A child that sends a byte now and then is bounded by `until`.
        while now() < until {
            let received = match receiver.next(&mut input) {
                Err(Stopped::Refused(refusal)) => return Ok((Vec::new(), Some(refusal))),
                received => received.map_err(io::Error::other)?,
            };
            match (received, &mut current) {
                (Received::Data(data), Some(current)) => current.add(&data)?,
                (Received::Data(_), None) => return Err(io::ErrorKind::InvalidData.into()),
                (Received::File(file), _) => {
                    files.extend(current.take().map(Writing::end));
                    bytes += file.length;
                    current = Some(Writing::begin(file, (bytes > HELD_MAX).then_some(&self.code))?);
                }
                (Received::End, _) => {
                    files.extend(current.take().map(Writing::end));
                    return Ok((files, None));
                }
            }
        }
        Err(io::Error::other(format!("it takes longer than {} s", LASTS.as_secs())))
    }
}

/// A file that is being unpacked.
struct Writing {
    file: InstalledCode,
    staged: Option<File>,
    digest: Sha256,
}

impl Writing {
    fn begin(Unpacked { path, executable, length }: Unpacked, code: Option<&PathBuf>) -> io::Result<Self> {
        let staged = code.map(|code| create(&code.join(&path))).transpose()?;
        let held = staged.is_none().then(Bytes::default);
        let mode = if executable { 0o755 } else { 0o644 };
        let file = InstalledCode { relative: path, mode, trusted: false, length, digest: [0; 32], held };
        Ok(Self { file, staged, digest: Sha256::new() })
    }

    fn add(&mut self, data: &[u8]) -> io::Result<()> {
        self.digest.update(data);
        if let Some(held) = &mut self.file.held {
            held.0.extend_from_slice(data);
        }
        self.staged.as_mut().map_or(Ok(()), |staged| staged.write_all(data))
    }

    fn end(self) -> InstalledCode {
        InstalledCode { digest: self.digest.finalize().into(), ..self.file }
    }
}

/// Makes a file, and the directories above it.
fn create(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    File::options().read(true).write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory has any order; on some file systems fnd's own files are never first.
    #[test]
    fn fetched_code_is_the_file_that_is_not_fnds_own() {
        for order in [[TREE_SIZE, COMPLETE, "f.py"], [COMPLETE, "f.py", TREE_SIZE], ["f.py", TREE_SIZE, COMPLETE]] {
            assert_eq!(fetched_file(order.into_iter().map(str::to_owned)).as_deref(), Some("f.py"));
        }
        assert_eq!(fetched_file([TREE_SIZE, COMPLETE].into_iter().map(str::to_owned)), None);
    }
}
