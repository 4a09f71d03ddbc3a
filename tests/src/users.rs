//! Users for the functions of one fnd: two instances that run as root on one machine must have different ones.

use nix::fcntl::{FcntlArg, fcntl};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock file for blocks of users of all tests on this machine, also of the spawner's
/// (`spawner/tests/common/users.rs`).
const FILE: &str = "/run/fnd-test-users.lock";
/// The first user of the first block, the size of a block, and the number of blocks.
const FIRST: u32 = 1_000_000;
const EACH: u32 = 10_000;
const BLOCKS: u32 = 10_000;

/// A block of users that no other test gets until this is dropped.
#[derive(Debug)]
pub struct Users {
    first: u32,
    _lock: File,
}

impl Users {
    /// Takes a free block.
    ///
    /// # Panics
    /// When there is none, or the tests don't run as root: functions have no users of their own then.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "constants of fcntl(2), none above 2")]
    pub fn reserve() -> Self {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(FILE).expect("root can open the blocks of users");
        // The search begins at a random block: functions of a killed test may still run as users of its block.
        let from = fastrand::u32(..BLOCKS);
        for block in (from..BLOCKS).chain(0..from) {
            // The lock belongs to the open file, not to the process, which may have other blocks: fcntl(2).
            let lock = libc::flock {
                l_type: libc::F_WRLCK as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: block.into(),
                l_len: 1,
                l_pid: 0,
            };
            if fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).is_ok() {
                return Self {
                    first: FIRST + block * EACH,
                    _lock: file,
                };
            }
        }
        panic!("other tests have all {BLOCKS} blocks of users");
    }

    /// Returns the first and the last.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        (self.first, self.first + EACH - 1)
    }

    /// Puts a range into the configuration beside an `fnd.toml`: where a test replaces that, it stays in force.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn configure(beside: &Path, (first, last): (u32, u32)) {
        let dir = beside.with_file_name("conf.d");
        fs::create_dir_all(&dir).expect("a directory for more configuration");
        let text = format!("[users]\nrange = [{first}, {last}]\n");
        fs::write(dir.join("users.toml"), text).expect("the range is written");
    }
}
