//! The files of a function: copies them, to run or to edit them elsewhere, and lists directories.

use fnd_manifest::regular_file;
use rustix::fs::Dir;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Copies a file. Nobody else may write to the copy: that of a person's own directory is nobody's danger here.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn file(from: &Path, to: &Path) -> io::Result<()> {
    // A FIFO, or a lease on the file, must not make fndctl wait.
    let mut opened = regular_file::open(from)?;
    let mode = opened.metadata()?.permissions().mode() & 0o755;
    io::copy(&mut opened, &mut fs::File::create(to)?)?;
    // The owner must be able to change the copy, also that of a read-only file.
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o600))
}

/// Returns the names in an open directory, sorted.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

/// Directories are not nested deeper in a function, and links may form a circle.
const DEPTH_MAX: usize = 16;

/// Copies a directory.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn tree(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if from.is_file() {
            file(&from, &to)?;
        } else if from.is_dir() && depth < DEPTH_MAX && !is_hidden {
            tree(&from, &to, depth + 1)?;
        }
    }
    Ok(())
}
