//! A program for the spawner's tests: sends SIGSTOP to the process ids that come next, for as long as it lives. That stops what
//! is started as the same user at any moment the kernel allows it.
#![expect(clippy::unwrap_used, reason = "a test program: it may die")]

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

fn main() {
    std::io::stdout().write_all(b"ready\n").and_then(|()| std::io::stdout().flush()).unwrap();
    let loads = std::fs::File::open("/proc/loadavg").unwrap();
    let mut text = [0; 64];
    loop {
        let length = loads.read_at(&mut text, 0).unwrap();
        let last =
            std::str::from_utf8(&text[..length]).unwrap().trim().rsplit(' ').next().unwrap().parse::<i32>().unwrap();
        for _ in 0..64 {
            for pid in last - 1..last + 8 {
                #[expect(unsafe_code, reason = "nix would need a feature only for this")]
                // SAFETY: sends a signal, where the kernel allows it; one of the own user gets it.
                unsafe {
                    if pid != i32::try_from(std::process::id()).unwrap() {
                        libc::kill(pid, libc::SIGSTOP);
                    }
                }
            }
        }
    }
}
