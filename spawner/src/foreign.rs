//! Reads files of other systems: the one with the function, and those beside it that it may name. No code here reads what
//! is in them: `fnd --unpack` makes the function, the child that also reads archives.

use crate::policy::problem;
use crate::source::{Kind, Opened, Sources};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::{Install, Problem};
use fnd_wire::naming;
use fnd_wire::unpack::Foreign;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;

/// Largest file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Most files beside one that are read for it.
const BESIDE_MAX: usize = 200;

/// Returns the input for the child: a file in memory with the opened file and those beside it. Only files of the same
/// owner count: nobody else may say what the function is. So nothing beside an upload counts: other people may have sent it.
///
/// # Errors
/// Why a file can't be read.
pub fn set(install: &Install, sources: &Sources, mut opened: Opened) -> Result<Opened, Problem> {
    let shown = opened.shown.clone();
    let failed = |error: io::Error| problem(&shown, format!("failed to read it: {error}"), "try again");
    let (above, own) = install.source.rsplit_once('/').unwrap_or(("", &install.source));
    let function = install.function.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let mut files = vec![(shown.clone(), Bytes(opened.read(FILE_MAX)?))];
    let dir = sources.dirs.get(usize::from(install.directory)).filter(|dir| **dir != sources.uploads);
    for entry in dir.map(|dir| fs::read_dir(dir.join(above)).map_err(failed)).transpose()?.into_iter().flatten() {
        let name = entry.map_err(failed)?.file_name().into_string().unwrap_or_default();
        if name == own || !naming::is_foreign(&name) || files.len() > BESIDE_MAX {
            continue;
        }
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        let Ok(mut beside) = sources.open(install.directory, &path, Kind::File) else { continue };
        if beside.meta.uid() == opened.meta.uid() && beside.trusted == opened.trusted {
            files.extend(beside.read(FILE_MAX).ok().map(|bytes| (beside.shown, Bytes(bytes))));
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    let set = Foreign { function, path: shown.clone(), files };
    let memory = memfd_create("fnd-foreign", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let mut file = File::from(memory);
    file.write_all(&set.to_wire()).and_then(|()| file.rewind()).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    Ok(Opened { file, meta, shown: opened.shown, trusted: opened.trusted })
}
