//! The fuzzer's entry to `restore`, without its lock.

use super::{Roots, entries, write};
use std::fs::File;
use std::path::Path;

/// Restores an archive below a directory. Returns whether it was refused.
///
/// # Panics
/// The archive cannot be opened.
#[must_use]
pub fn restore(archive: &Path, to: &Path) -> bool {
    let file = File::open(archive).expect("the archive is there");
    let roots = Roots {
        config: to.join("config"),
        config_name: "fnd.toml".into(),
        functions: vec![to.join("functions")],
        state: to.join("state"),
    };
    if entries::check(&file, &roots).is_err() {
        return true;
    }
    // The write may fail after a part of the files: the archive may have a directory in the place of one of its files.
    let _ = write::write(&file, &roots, |_| {});
    false
}
