//! Reads the file system as this process sees it. The judge has no files: all other code of this crate opens none.

use super::Files;
use crate::function::listing::{Entry, EntryKind};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The file system as this process sees it.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Files for Disk {
    fn list(&self, directory: &str) -> Result<Vec<Entry>, String> {
        let mut result = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let kind = kind(&entry.path()).unwrap_or(EntryKind::Other);
            result.push(Entry {
                name: entry.file_name().into_vec(),
                kind,
            });
        }
        Ok(result)
    }

    fn read(&self, path: &str, max: usize) -> Result<Vec<u8>, String> {
        // Reading a FIFO would block.
        if !matches!(self.kind(path)?, EntryKind::File { .. }) {
            return Err("it is not a regular file".to_owned());
        }
        let mut bytes = Vec::new();
        let limit = u64::try_from(max).unwrap_or(u64::MAX);
        let file = File::open(path).map_err(|error| error.to_string())?;
        file.take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn kind(&self, path: &str) -> Result<EntryKind, String> {
        kind(Path::new(path)).map_err(|error| error.to_string())
    }
}

fn kind(path: &Path) -> io::Result<EntryKind> {
    let metadata = std::fs::metadata(path)?;
    Ok(if metadata.is_file() {
        EntryKind::File {
            executable: metadata.permissions().mode() & 0o111 != 0,
        }
    } else if metadata.is_dir() {
        EntryKind::Directory {
            manifest: path.join("function.toml").is_file(),
        }
    } else {
        EntryKind::Other
    })
}
