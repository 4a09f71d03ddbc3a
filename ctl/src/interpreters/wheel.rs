//! Takes the program out of a wheel (a zip file, PEP 427): it lies in `NAME-VERSION.data/scripts`. Nothing else is taken. The
//! reader is that of functions in archives, which refuses a damaged archive and a path that leads out of it.

use super::{KnownInterpreter, failed};
use crate::exit::CommandFailure;
use fnd_unpack::{Sink, UnpackStop};
use fnd_wire::archive::Format;
use fnd_wire::unpack::Unpacked;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Takes one file of an archive.
struct ProgramSink<'a> {
    known: &'a KnownInterpreter,
    to: &'a Path,
    /// The program's version and file, when it was found.
    program: Option<(String, File)>,
    /// Whether the bytes that come are the program's.
    inside: bool,
}

impl Sink for ProgramSink<'_> {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.inside = false;
        if let Some(version) = version(&file.path, self.known) {
            let program = File::options().write(true).create_new(true).mode(0o755).open(self.to)?;
            self.program = Some((version.to_owned(), program));
            self.inside = true;
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The bytes of all other files of the wheel come here, too.
        let program = self.program.as_mut().filter(|_| self.inside);
        program.map_or(Ok(()), |(_, program)| program.write_all(bytes))
    }
}

/// Returns the version of a wheel if a path in it is that of the program.
fn version<'a>(path: &'a str, known: &KnownInterpreter) -> Option<&'a str> {
    let (top, below) = path.split_once('/')?;
    let version = top
        .strip_prefix(known.package)?
        .strip_prefix('-')?
        .strip_suffix(".data")?;
    (below == known.program).then_some(version)
}

/// Writes the program of a wheel to a new file, executable for everybody. Returns the version of the wheel.
///
/// # Errors
/// The wheel is damaged, or has no such program.
pub(super) fn unpack(package: &Path, known: &KnownInterpreter, to: &Path) -> Result<String, CommandFailure> {
    let shown = package.display();
    let broken = |error: io::Error| failed(format!("failed to read the package `{shown}`: {error}"));
    let mut file = File::open(package).map_err(broken)?;
    let mut taken = ProgramSink {
        known,
        to,
        program: None,
        inside: false,
    };
    match fnd_unpack::unpack(Format::Zip, &mut file, &mut taken) {
        Ok(()) => {}
        Err(UnpackStop::Refused(refusal)) => {
            let (message, _) = refusal.words();
            return Err(failed(format!("failed to read the package `{shown}`: {message}")));
        }
        Err(UnpackStop::Sink(error)) => return Err(failed(format!("failed to write `{}`: {error}", to.display()))),
    }
    let (version, program) = taken.program.ok_or_else(|| {
        let wanted = format!("{}-VERSION.data/{}", known.package, known.program);
        failed(format!("`{shown}` has no `{wanted}`: it is another package"))
    })?;
    let synced = program.sync_all();
    synced.map_err(|error| failed(format!("failed to write `{}`: {error}", to.display())))?;
    Ok(version)
}
