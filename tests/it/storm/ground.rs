//! The surroundings of fnd that the storm changes: a small file system for its state, and its clock. The mounts are in
//! a mount namespace of the test, so that a killed test leaves none.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Size of the state's file system in MiB: at the beginning, and for each second. A storm deletes no history, so
/// history and output grow all the time, and a backup needs room for a copy of the history.
const SIZE: u64 = 64;
const SIZE_OF_SECOND: u64 = 1;
/// Number of files that the file system can hold.
const INODES: u32 = 4000;

/// The surroundings of one fnd.
pub(super) struct Ground {
    own: TempDir,
    mounted: Vec<PathBuf>,
}

impl Ground {
    /// Gives this thread, and the processes that it starts, a mount namespace.
    pub(super) fn begin() -> Self {
        unshare(CloneFlags::CLONE_NEWNS).expect("root may have a mount namespace");
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("its mounts are its own");
        let own = tempfile::tempdir().expect("a temporary directory");
        let ground = Self {
            own,
            mounted: Vec::new(),
        };
        ground.step(0);
        ground
    }

    /// Returns the file with the offset of fnd's clock.
    pub(super) fn clock(&self) -> PathBuf {
        self.own.path().join("clock")
    }

    /// Sets fnd's clock to this many milliseconds from the machine's.
    pub(super) fn step(&self, ms: i64) {
        let new = self.own.path().join("new");
        fs::write(&new, ms.to_string()).expect("a file is written");
        fs::rename(new, self.clock()).expect("it is renamed");
    }

    /// Mounts the small file system, for a storm of this many seconds.
    pub(super) fn with_state(mut self, state: &Path, seconds: u64) -> Self {
        let size = SIZE + SIZE_OF_SECOND * seconds;
        self.mount(state, &format!("size={size}m,nr_inodes={INODES},mode=0755"));
        self
    }

    /// Mounts an empty file system over a directory.
    pub(super) fn mount(&mut self, over: &Path, options: &str) {
        mount(Some("fnd-storm"), over, Some("tmpfs"), MsFlags::empty(), Some(options)).expect("root may mount");
        self.mounted.push(over.to_owned());
    }

    /// Unmounts the last mount.
    pub(super) fn unmount(&mut self) {
        if let Some(path) = self.mounted.pop() {
            umount2(&path, MntFlags::MNT_DETACH).expect("what was mounted is unmounted");
        }
    }

    /// Fills the state's file system; freed when the result is dropped.
    pub(super) fn fill(&self) -> Filled {
        let path = self.ballast();
        let mut file = File::create(path.join("large")).expect("a file of the ballast");
        let zeros = vec![0; 1 << 16];
        for size in [zeros.len(), 512] {
            while file.write_all(&zeros[..size]).is_ok() {}
        }
        Filled(path)
    }

    /// Takes all inodes of the state's file system; given back when the result is dropped.
    pub(super) fn take_inodes(&self) -> Filled {
        let path = self.ballast();
        let full = (0..100_000).find_map(|number| File::create(path.join(number.to_string())).err());
        assert_eq!(full.expect("there are few").kind(), ErrorKind::StorageFull);
        Filled(path)
    }

    fn ballast(&self) -> PathBuf {
        let state = self.mounted.first().expect("the state's is mounted first");
        let path = state.join("ballast");
        // A directory that could not be removed completely is used again.
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("no room for `{}`: {error}", path.display()));
        path
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        while !self.mounted.is_empty() {
            self.unmount();
        }
    }
}

/// A shortage.
pub(super) struct Filled(PathBuf);

impl Drop for Filled {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the ballast is removed");
    }
}
