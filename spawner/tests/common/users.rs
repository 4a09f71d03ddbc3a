//! Users for the functions of one test: two spawners that run as root on one machine must have different ones.

use nix::fcntl::{FcntlArg, fcntl};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock file for blocks of users of all tests on this machine, also of the end-to-end tests (`tests/src/users.rs`).
const FILE: &str = "/run/fnd-test-users.lock";
/// The first user of the first block, the size of a block, and the number of blocks.
const FIRST: u32 = 1_000_000;
const EACH: u32 = 10_000;
const BLOCKS: u32 = 10_000;

/// A block of users that no other test gets until this is dropped.
pub struct Users {
    first: u32,
    _lock: Option<File>,
}

impl Users {
    /// Takes a free block; any block if the tests don't run as root, since functions have no users of their own then.
    #[expect(clippy::cast_possible_truncation, reason = "constants of fcntl(2), none above 2")]
    pub fn reserve() -> Self {
        if !super::is_root() {
            return Self { first: FIRST, _lock: None };
        }
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(FILE).unwrap();
        // The search begins at a random block: functions of a killed test may still run as users of its block.
        let from = std::process::id().wrapping_mul(2_654_435_761) % BLOCKS;
        for block in (from..BLOCKS).chain(0..from) {
            // The lock belongs to the open file, not to the process, which may have other blocks: fcntl(2).
            let lock = nix::libc::flock {
                l_type: nix::libc::F_WRLCK as nix::libc::c_short,
                l_whence: nix::libc::SEEK_SET as nix::libc::c_short,
                l_start: block.into(),
                l_len: 1,
                l_pid: 0,
            };
            if fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).is_ok() {
                return Self { first: FIRST + block * EACH, _lock: Some(file) };
            }
        }
        panic!("other tests have all {BLOCKS} blocks of users");
    }

    /// Returns the first of its users.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the first and the last.
    pub fn range(&self) -> (u32, u32) {
        (self.first, self.first + EACH - 1)
    }

    /// Writes a range into the configuration of the fake judge.
    pub fn configure(etc: &Path, (first, last): (u32, u32)) {
        fs::create_dir_all(etc.join("conf.d")).unwrap();
        fs::write(etc.join("conf.d/users.toml"), format!("range={first} {last}\n")).unwrap();
    }
}
