//! Shared memory that runs leave behind: it counts against their function, other functions are unaffected, and the machine
//! has it back when the function's launcher has ended.

use crate::common::{Harness, privileged, until};
use crate::{PROFILES, can, expect, python_lines, said, start};
use fnd_wire::frame::{ExitStatus, Installed};
use std::fs;
use std::path::{Path, PathBuf};

/// Leaves 40 MB in /dev/shm, and then a System V segment of the same size.
const LEAVE: &str = r"
def fill():
    with open('/dev/shm/' + os.environ['DATA'], 'wb', buffering=0) as file:
        for _ in range(40):
            if file.write(b'x' * 1000000) < 1000000:
                raise OSError(errno.ENOSPC, '')
say('file', fill)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, ctypes.c_size_t(40000000), 0o1600)
address = libc.shmat(segment, None, 0)
print('segment', 'none' if segment < 0 else 'made', flush=True)
ctypes.memset(address, 1, 40000000)
print('filled', flush=True)
";
/// Does the same, and cleans up.
const BORROW: &str = r"
libc.shmctl(segment, 0, None)
os.remove('/dev/shm/' + os.environ['DATA'])
";
const MIB: u64 = 1 << 20;

/// Returns the bytes of shared memory of all functions together, by the kernel's counter of their group; absent where
/// the machine has none.
fn shared(harness: &Harness) -> Option<u64> {
    let name = format!("fnd-{}", harness.child.id());
    let trees = [("memory", "total_shmem "), ("unified", "shmem "), ("", "shmem ")];
    trees.into_iter().find_map(|(tree, counter)| {
        let stat = Path::new("/sys/fs/cgroup").join(tree).join(&name).join("memory.stat");
        let stat = fs::read_to_string(stat).ok()?;
        stat.lines().find_map(|line| line.strip_prefix(counter)?.parse().ok())
    })
}

/// Files in the machine's own /dev/shm, removed at the end also of a test that fails.
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

fn attack(runs: usize) {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let Some(before) = shared(&harness).filter(|_| can(&harness, "mounts") && can(&harness, "ipc")) else { return };
    let prefix = format!("fnd-test-{}", harness.child.id());
    let file = |name: &str| format!("{prefix}-{name}");
    let machine = |name: &str| Path::new("/dev/shm").join(file(name));
    let files = Files(PROFILES.into_iter().chain(["other"]).map(machine).collect());
    let mut others: Vec<(Installed, &str)> = Vec::new();
    for profile in PROFILES {
        let lines = python_lines(&format!("profile={profile}"));
        let attacker = harness.install(&format!("{profile}.py"), &format!("{}{LEAVE}", crate::SAY), &lines);
        let other = format!("{}{LEAVE}{BORROW}", crate::SAY);
        others.push((harness.install(&format!("{profile}-other.py"), &other, &lines), profile));
        let mut whole = 0;
        for _ in 0..runs {
            let run = harness.run(&attacker, None, &[("DATA", &file(profile))]);
            match run.exited.status {
                ExitStatus::Code(0) => {
                    assert_eq!(said(&run.stdout, "file"), "ok", "{profile}: the same file each time");
                    whole += 1;
                }
                // What is left fills the limit: the next runs are killed, some before they say anything.
                status => assert_eq!(status, ExitStatus::Signal(9), "{profile}: {}{}", run.stdout, run.stderr),
            }
        }
        // 256 MiB are the limit of each function: at most five segments and the file.
        assert!(whole <= 5, "{profile}: {whole} runs left their memory");
        let together = shared(&harness).unwrap();
        assert!(together <= before + 3 * 257 * MIB, "{profile}: {} MiB", together / MIB);
        for (other, profile) in &others {
            let run = harness.run(other, None, &[("DATA", &file("other"))]);
            expect(&run.stdout, profile, &[("file", "ok"), ("segment", "made"), ("filled", "")]);
            assert_eq!(run.exited.status, ExitStatus::Code(0), "{profile}: {}", run.stderr);
        }
    }
    // In profile off the file is the machine's: it stays, and counts against the limit of all functions together.
    let sizes: Vec<_> = files.0.iter().filter_map(|file| Some(fs::metadata(file).ok()?.len())).collect();
    // The last run may have been killed while it wrote.
    let [left] = sizes[..] else { panic!("{sizes:?}") };
    let is_left = |bytes: u64| shared(&harness).unwrap().abs_diff(before + bytes) < MIB;
    until("the memory to go with the launchers", || is_left(left));
    drop(files);
    until("the file of profile off to go", || is_left(0));
}

#[test]
fn shared_memory_that_runs_leave_is_bounded_and_goes_with_the_launcher() {
    attack(7);
}

#[test]
#[ignore = "takes half a minute"]
fn shared_memory_of_a_hundred_runs_goes_with_the_launcher() {
    attack(100);
}
