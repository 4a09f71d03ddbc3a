//! `fnd-helper --measure HOME CACHE`: counts what is in a function's directories, as the function's user, and prints it as one
//! line of JSON.
//!
//! It changes nothing, follows no link and enters no other mount. It opens each directory by its path below the first
//! one, so that a deep tree needs no more descriptors than a flat one.

use crate::clock;
use fnd_core::quota::{Gap, Measured, TreeSize};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time for each of the two directories: enough for a million files that are not in the page cache.
const LASTS: Duration = Duration::from_secs(5);
/// Most bytes for directories that wait and for inodes with several names: it is memory of the function.
const HELD_MAX: usize = 8 << 20;
/// The clock is read once for so many files.
const PIECE: u32 = 256;
/// Longest part of a path in a message, in characters.
const SHOWN_MAX: usize = 200;
/// Size of the blocks that `stat` counts, whatever the file system's own blocks are (stat(2)).
const BLOCK: u64 = 512;

/// Measures a home and a cache, and prints the result on standard output.
#[must_use]
pub fn run([home, cache]: &[PathBuf; 2]) -> ExitCode {
    crate::allocator::set_bounds();
    // The function's processes have the same user as this one, and must not write into its memory. If this call fails, they can.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let measured = Measured {
        home: tree(home, clock::monotonic() + LASTS),
        cache: tree(cache, clock::monotonic() + LASTS),
    };
    let mut line = serde_json::to_vec(&measured).unwrap_or_default(); // texts and numbers
    line.push(b'\n');
    match io::stdout().write_all(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Counts the allocated bytes of a directory with everything in it.
#[must_use]
pub fn tree(path: &Path, until: Instant) -> TreeSize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = openat(CWD, path, flags, Mode::empty()).and_then(|root| Ok((fstat(&root)?, root)));
    match opened {
        Ok((stat, root)) => MeasureWalk::new(root, &stat).all(until),
        // It was removed.
        Err(Errno::NOENT) => TreeSize::default(),
        Err(error) => TreeSize {
            bytes: 0,
            gap: Some(match error {
                Errno::ACCESS => Gap::Closed(".".to_owned()),
                error => unfinished(error),
            }),
        },
    }
}

struct MeasureWalk {
    root: OwnedFd,
    device: u64,
    /// Directories that are not counted yet, by their path below the root.
    pending: Vec<Vec<u8>>,
    /// Inodes with several names that were counted.
    counted: HashSet<u64>,
    held: usize,
    tree: TreeSize,
}

impl MeasureWalk {
    fn new(root: OwnedFd, stat: &Stat) -> Self {
        let mut walk = Self {
            root,
            device: stat.st_dev,
            pending: vec![b".".to_vec()],
            counted: HashSet::new(),
            held: 0,
            tree: TreeSize::default(),
        };
        walk.add(stat);
        walk
    }

    fn all(mut self, until: Instant) -> TreeSize {
        while let Some(path) = self.pending.pop() {
            self.held = self.held.saturating_sub(path.len());
            let result = self.open(&path).and_then(|opened| match opened {
                Some(directory) => self.list(&path, &directory, until),
                None => Ok(()),
            });
            match result {
                Ok(()) => {}
                // It was removed or replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(Errno::ACCESS) if self.is_of_others(&path) => {}
                Err(Errno::ACCESS) => self.gap(Gap::Closed(shown(&path))),
                // With relative paths a function can make trees that are deeper than the longest path.
                Err(Errno::NAMETOOLONG) => self.gap(Gap::Deep(shown(&path))),
                Err(Errno::TIME) => {
                    let seconds = LASTS.as_secs();
                    self.gap(Gap::Unfinished(format!(
                        "it has too many files to be counted in {seconds} s"
                    )));
                    break;
                }
                Err(Errno::NOBUFS) => {
                    self.gap(Gap::Unfinished("it has too many directories or links".to_owned()));
                    break;
                }
                Err(error) => self.gap(unfinished(error)),
            }
        }
        self.tree
    }

    /// Opens a directory; absent if it is another mount.
    fn open(&self, path: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let path = OsStr::from_bytes(path);
        let opened = match openat2(&self.root, path, flags, Mode::empty(), resolve) {
            // A container may forbid `openat2`. `openat` differs from it only if the function swaps directories meanwhile, and
            // for a mount of the same file system.
            Err(Errno::NOSYS | Errno::PERM) => openat(&self.root, path, flags, Mode::empty()),
            result => result,
        };
        match opened {
            Ok(directory) => Ok((fstat(&directory)?.st_dev == self.device).then_some(directory)),
            Err(Errno::XDEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Counts the files of a directory. `TIME` says that the time is over, `NOBUFS` that there is too much to remember.
    fn list(&mut self, path: &[u8], directory: &OwnedFd, until: Instant) -> Result<(), Errno> {
        let mut listing = Dir::read_from(directory)?;
        let mut piece = 0;
        while let Some(entry) = listing.read() {
            let entry = entry?;
            let name = entry.file_name();
            if [b".".as_slice(), b".."].contains(&name.to_bytes()) {
                continue;
            }
            if piece == 0 && clock::monotonic() >= until {
                return Err(Errno::TIME);
            }
            piece = (piece + 1) % PIECE;
            let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if stat.st_dev == self.device => stat,
                // It is on another file system, or was removed meanwhile.
                Ok(_) | Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            };
            self.add(&stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let below = [path, b"/", name.to_bytes()].concat();
                self.held = self.held.saturating_add(below.len());
                self.pending.push(below);
            }
            // An inode takes some 16 bytes in the set.
            if self.held.saturating_add(self.counted.len().saturating_mul(16)) > HELD_MAX {
                return Err(Errno::NOBUFS);
            }
        }
        Ok(())
    }

    fn add(&mut self, stat: &Stat) {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // Only a file with several names is remembered, since all others are met once. A directory has links, too (`..`
        // of those below it), but is met once.
        if is_directory || stat.st_nlink < 2 || self.counted.insert(stat.st_ino) {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
            self.tree.bytes = self.tree.bytes.saturating_add(blocks.saturating_mul(BLOCK));
        }
    }

    /// Says whether a directory belongs to another user, such as a `lost+found` of root: then the function did not fill it.
    fn is_of_others(&self, path: &[u8]) -> bool {
        let stat = statat(&self.root, OsStr::from_bytes(path), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_uid != geteuid().as_raw())
    }

    /// Stores why not everything is counted. A reason for which the directory counts as full is not replaced.
    fn gap(&mut self, gap: Gap) {
        if matches!(self.tree.gap, None | Some(Gap::Unfinished(_))) {
            self.tree.gap = Some(gap);
        }
    }
}

fn unfinished(error: Errno) -> Gap {
    Gap::Unfinished(format!("it could not be read: {}", io::Error::from(error)))
}

fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let text = text.strip_prefix("./").unwrap_or(&text);
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    fn measure(path: &Path) -> TreeSize {
        tree(path, clock::monotonic() + LASTS)
    }

    fn blocks(paths: &[&Path]) -> u64 {
        let of = |path: &&Path| fs::symlink_metadata(path).unwrap().blocks() * BLOCK;
        paths.iter().map(of).sum()
    }

    #[test]
    fn each_inode_counts_once_and_links_are_not_followed() {
        let both = tempfile::tempdir().unwrap();
        let (home, other) = (both.path().join("home"), both.path().join("other"));
        let below = home.join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("huge"), vec![1; 4 << 20]).unwrap();
        let (file, far) = (home.join("file"), below.join("far"));
        fs::write(&file, vec![1; 100_000]).unwrap();
        fs::write(&far, vec![1; 5000]).unwrap();
        fs::hard_link(&file, below.join("again")).unwrap();
        symlink(&other, home.join("link")).unwrap();
        symlink(other.join("huge"), home.join("link to a file")).unwrap();
        // Sparse files count as what they use.
        fs::File::create(home.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        let links = [home.join("link"), home.join("link to a file")];
        let all = [&home, &home.join("a"), &below, &file, &far, &links[0], &links[1]];
        let expected = blocks(&all.map(PathBuf::as_path));
        assert!(expected > 105_000);
        assert_eq!(
            measure(&home),
            TreeSize {
                bytes: expected,
                gap: None
            }
        );
        assert_eq!(measure(&both.path().join("missing")), TreeSize::default());
    }

    #[test]
    fn what_takes_too_long_is_a_lower_bound() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), vec![1; 100_000]).unwrap();
        let found = tree(home.path(), clock::monotonic());
        assert!(matches!(found.gap, Some(Gap::Unfinished(why)) if why.contains("too many files")));
        assert!(found.bytes < 100_000);
    }

    #[test]
    fn a_path_that_nobody_can_open_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let name = "d".repeat(200);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, home.path(), flags, Mode::empty()).unwrap();
        for _ in 0..30 {
            mkdirat(&at, &*name, Mode::from_raw_mode(0o700)).unwrap();
            at = openat(&at, &*name, flags, Mode::empty()).unwrap();
        }
        let found = measure(home.path());
        assert!(matches!(found.gap, Some(Gap::Deep(path)) if path == name));
    }

    #[test]
    fn a_tree_deeper_than_there_are_descriptors_is_counted() {
        let home = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::once(home.path().to_owned())
            .chain((0..1500).map(|_| "d".into()))
            .collect();
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("f"), vec![1; 100_000]).unwrap();
        let found = measure(home.path());
        assert!(found.gap.is_none() && found.bytes > 100_000, "{found:?}");
    }
}
