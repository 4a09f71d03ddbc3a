//! The trees of dependencies on the disk: their sizes and their packages.

use fnd_wire::plan::{COMPLETE, TREE_SIZE};
use std::cell::Cell;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Most bytes that are read of the list of packages.
const PACKAGES_MAX: u64 = 256 << 10;

/// Returns the directory of all trees.
pub(crate) fn trees(state: &str) -> PathBuf {
    Path::new(state).join("deps")
}

#[derive(Debug, Default)]
pub(crate) struct TreesOnDisk {
    /// Whether what builds of an earlier fnd have left is removed.
    pub(crate) is_swept: bool,
    /// The bytes of all trees; absent: to be counted.
    bytes: Cell<Option<u64>>,
}

impl TreesOnDisk {
    /// Notes that trees have come or gone. The next status counts their bytes anew.
    pub(crate) fn changed(&self) {
        self.bytes.set(None);
    }

    /// Returns the bytes of all trees in a directory.
    pub(crate) fn bytes(&self, trees: &Path) -> u64 {
        // Kept until a tree comes or goes: monitoring asks for the status often, and each tree is a file to read.
        if self.bytes.get().is_none() {
            let all = std::fs::read_dir(trees).into_iter().flatten().flatten();
            let bytes = all.filter_map(|tree| tree_bytes(&tree.path())).sum();
            self.bytes.set(Some(bytes));
        }
        self.bytes.get().unwrap_or_default()
    }
}

/// Returns the size of a tree in bytes, which was stored when the tree was made.
pub(crate) fn tree_bytes(tree: &Path) -> Option<u64> {
    std::fs::read_to_string(tree.join(TREE_SIZE)).ok()?.parse().ok()
}

/// Returns the packages of a tree: the lines of a file that its installation wrote.
pub(super) fn packages(tree: &Path) -> Vec<String> {
    let mut text = String::new();
    // A build has written the file, so it may have any length.
    let read = File::open(tree.join(COMPLETE)).and_then(|file| file.take(PACKAGES_MAX).read_to_string(&mut text));
    // The packages are only shown to people, so a file that cannot be read counts as empty.
    let shown = read.map(|_| text.lines().map(str::to_owned).collect());
    shown.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_size_and_the_packages_that_its_installation_noted() {
        let state = tempfile::tempdir().unwrap();
        let tree = trees(&state.path().display().to_string()).join("07");
        assert_eq!((tree_bytes(&tree), packages(&tree)), (None, vec![]));
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join(TREE_SIZE), "4096").unwrap();
        std::fs::write(tree.join(COMPLETE), "a 1.0\nb 2.0\n").unwrap();
        assert_eq!(tree_bytes(&tree), Some(4096));
        assert_eq!(packages(&tree), ["a 1.0", "b 2.0"]);
    }
}
