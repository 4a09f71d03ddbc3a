//! Unpacks archives that are functions. No code here reads an archive: `fnd-helper --unpack` does it, a child without user, files or
//! network. This side gives it the open archive, and takes files under names that it checks itself.
//!
//! All of this runs in a helper, which writes files to the staging directory as other helpers copy them there.

use super::HELD_MAX;
use crate::clock::now;
use crate::process::clone::ChildPlace;
use crate::process::{reap, unprivileged};
use fnd_wire::archive::{ArchiveRefusal, Format};
use fnd_wire::form::{Bytes, wire_structs};
use fnd_wire::unpack::{DATA_MAX, Received, Receiver, Stopped, Unpacked};
use sha2::{Digest as _, Sha256};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the child may take. It reads an archive to its end before it sends the first file.
const LASTS: Duration = Duration::from_secs(100);

wire_structs! {
    /// A file of an archive.
    pub struct ArchivedFile {
        /// Its path in the function.
        pub relative: String,
        /// Its permission bits.
        pub mode: u32,
        /// Its length in bytes.
        pub length: u64,
        pub digest: [u8; 32],
        /// Its content; absent: it is in the staging directory.
        pub held: Option<Bytes>,
    }

    /// The result of unpacking.
    pub struct Contents {
        pub files: Vec<ArchivedFile>,
        /// Why the archive is refused.
        pub refused: Option<ArchiveRefusal>,
    }
}

pub struct Unpacker {
    pub program: PathBuf,
    /// Whether the child can have a user of its own.
    pub root: bool,
    /// The format of the archive.
    pub format: Format,
    /// Where files are written, unless they are held in memory.
    pub code: PathBuf,
}

impl Unpacker {
    /// Unpacks an open archive.
    ///
    /// # Errors
    /// If the child can't be started, breaks a rule or takes too long, or if writing fails.
    pub fn unpack(&self, archive: &File) -> io::Result<Contents> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LASTS))?;
        let null = File::options().write(true).open("/dev/null")?;
        let place = ChildPlace { cgroup: None, stdio: [archive.as_fd(), theirs.as_fd(), null.as_fd()], channel: None };
        let argument = CString::new(format!("--unpack={}", self.format.suffix()))?;
        let started = unprivileged::start(&unprivileged::image(&self.program)?, vec![argument], self.root, place);
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
                Err(Stopped::Refused(refusal)) => {
                    return Ok(Contents { files: Vec::new(), refused: Some(refusal) });
                }
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
                    return Ok(Contents { files, refused: None });
                }
            }
        }
        Err(io::Error::other(format!("it takes longer than {} s", LASTS.as_secs())))
    }
}

/// A file that is being unpacked.
struct Writing {
    file: ArchivedFile,
    staged: Option<File>,
    digest: Sha256,
}

impl Writing {
    fn begin(Unpacked { path, executable, length }: Unpacked, code: Option<&PathBuf>) -> io::Result<Self> {
        let staged = code.map(|code| create(&code.join(&path))).transpose()?;
        let held = staged.is_none().then(Bytes::default);
        let mode = if executable { 0o755 } else { 0o644 };
        let file = ArchivedFile { relative: path, mode, length, digest: [0; 32], held };
        Ok(Self { file, staged, digest: Sha256::new() })
    }

    fn add(&mut self, data: &[u8]) -> io::Result<()> {
        self.digest.update(data);
        if let Some(held) = &mut self.file.held {
            held.0.extend_from_slice(data);
        }
        self.staged.as_mut().map_or(Ok(()), |staged| staged.write_all(data))
    }

    fn end(self) -> ArchivedFile {
        ArchivedFile { digest: self.digest.finalize().into(), ..self.file }
    }
}

/// Makes a file, and the directories above it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    File::options().read(true).write(true).create_new(true).open(path)
}
