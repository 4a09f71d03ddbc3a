//! Reads files of other systems: the one with the function, and those beside it that it may name. No code here reads what
//! is in them: `fnd-helper --unpack` makes the function, the child that also reads archives.

use super::*;
use fnd_wire::unpack::Foreign;
use rustix::fs::{MemfdFlags, memfd_create};
use std::io::Seek as _;

/// Largest file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Returns the input for the child: a file in memory with the opened file and those beside it. Only files of the same
/// owner count: nobody else may say what the function is. So nothing beside an upload counts: other people may have sent it.
///
/// # Errors
/// Why a file can't be read.
pub fn set(install: &Install, sources: &Sources, mut opened: OpenedSource) -> Result<OpenedSource, Problem> {
    let shown = opened.shown.clone();
    let failed = |error: io::Error| problem(&shown, format!("failed to read it: {error}"), "try again");
    let (above, own) = install.source.rsplit_once('/').unwrap_or(("", &install.source));
    let function = install.function.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let files = vec![(shown.clone(), Bytes(opened.read(FILE_MAX)?))];
    let mut set = Foreign { function, path: shown.clone(), files };
    let dir = sources.dirs.get(usize::from(install.directory)).filter(|dir| **dir != sources.uploads);
    let entries = dir.map(|dir| fs::read_dir(dir.join(above)).map_err(failed)).transpose()?.into_iter().flatten();
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>().map_err(failed)?;
    // In the order of their names, so that the limit leaves out the same files each time.
    names.sort();
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| *name != own && naming::is_foreign(name)) {
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        let Ok(mut beside) = sources.open(install.directory, &path, SourceKind::File) else { continue };
        let (owner, length) = (beside.meta.uid(), beside.meta.len());
        if owner == opened.meta.uid() && beside.trusted == opened.trusted && length <= FILE_MAX {
            if !set.has_room(&beside.shown, length) {
                break;
            }
            set.files.extend(beside.read(FILE_MAX).ok().map(|bytes| (beside.shown, Bytes(bytes))));
        }
    }
    set.files.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut file = File::from(memfd_create("fnd-foreign", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?);
    file.write_all(&set.to_wire()).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(OpenedSource { meta: file.metadata().map_err(failed)?, file, shown: opened.shown, trusted: opened.trusted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;
    use crate::stat_cache::StatCache;
    use fnd_wire::ids::FunctionName;
    use std::io::Read as _;
    use std::path::PathBuf;

    /// The root program's only loop reads these files, so one author's files must not keep it busy.
    #[test]
    fn of_many_files_only_4_mib_are_read_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..200 {
            let file = File::create(dir.path().join(format!("{number:03}.yaml"))).unwrap();
            file.set_len(FILE_MAX).unwrap();
        }
        // Larger than a file may be: it counts nowhere.
        File::create(dir.path().join("000-large.yaml")).unwrap().set_len(100 << 20).unwrap();
        fs::write(dir.path().join("050.yaml"), "kind: Function").unwrap();
        let dirs = vec![dir.path().to_owned()];
        let sources = Sources { dirs, uploads: PathBuf::new(), myself: Myself::current(), facts: StatCache::default() };
        let (function, source) = (FunctionName::new("f").unwrap(), "050.yaml".to_owned());
        let install = Install { directory: 0, function, source, sidecar: None, directory_form: false };
        let opened = sources.open(0, "050.yaml", SourceKind::File).ok().unwrap();
        let mut bytes = Vec::new();
        set(&install, &sources, opened).ok().unwrap().file.read_to_end(&mut bytes).unwrap();
        let mut set = Foreign::from_wire(&bytes).unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(set.take_left_out(), Some(path("003.yaml")));
        let names: Vec<&str> = set.files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["000.yaml", "001.yaml", "002.yaml", "050.yaml"].map(path));
    }
}
