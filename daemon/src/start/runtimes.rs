//! Writes the runtimes inside the program to a directory, where no other directory has them.

use anyhow::Context as _;
use fnd_manifest::runtime::shipped::FILES;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Writes the runtimes below a state directory, if they are not there; returns their directory.
///
/// Each content has a directory of its own, since workers of an earlier version may still load files. A directory that
/// differs, for example after a power cut, is written anew.
pub(super) fn unpack(state: &Path) -> anyhow::Result<PathBuf> {
    let mut sum = crc32fast::Hasher::new();
    for (path, bytes) in FILES {
        sum.update(path.as_bytes());
        sum.update(bytes);
    }
    let above = state.join("runtimes");
    let directory = above.join(format!("{}-{:08x}", env!("CARGO_PKG_VERSION"), sum.finalize()));
    if !is_complete(&directory) {
        let shown = directory.display();
        write(&above, &directory).with_context(|| format!("failed to write the runtimes to `{shown}`"))?;
    }
    Ok(directory)
}

fn is_complete(directory: &Path) -> bool {
    let same = |(path, bytes): &(&str, &[u8])| fs::read(directory.join(path)).is_ok_and(|found| found == *bytes);
    FILES.iter().all(same)
}

fn write(above: &Path, directory: &Path) -> io::Result<()> {
    let fresh = above.join(".new");
    for old in [&fresh, directory] {
        match fs::remove_dir_all(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // It is removed, or was not there.
            _ => {}
        }
    }
    for (path, bytes) in FILES {
        let path = fresh.join(path);
        let parent = path.parent().unwrap_or(&fresh);
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        File::create_new(&path)?.write_all(bytes)?;
    }
    // Functions with users of their own read them, whatever the umask is.
    open_to_all(above)?;
    // Nothing is synced: each start compares all files, and writes a directory that a power cut has damaged anew.
    fs::rename(fresh, directory)
}

fn open_to_all(path: &Path) -> io::Result<()> {
    let directory = path.is_dir();
    fs::set_permissions(path, Permissions::from_mode(if directory { 0o755 } else { 0o644 }))?;
    if directory {
        fs::read_dir(path)?.try_for_each(|entry| open_to_all(&entry?.path()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_differs_is_written_anew() {
        let state = tempfile::tempdir().unwrap();
        let directory = unpack(state.path()).unwrap();
        let shim = directory.join("python/shim.py");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&shim)), (0o755, 0o644));
        fs::write(&shim, "").unwrap();
        fs::remove_file(directory.join("exec/runtime.toml")).unwrap();
        assert_eq!(unpack(state.path()).unwrap(), directory);
        assert!(is_complete(&directory));
        // Nothing is written where nothing differs.
        fs::write(directory.join("kept"), "").unwrap();
        assert_eq!(unpack(state.path()).unwrap(), directory);
        assert!(directory.join("kept").exists());
    }
}
