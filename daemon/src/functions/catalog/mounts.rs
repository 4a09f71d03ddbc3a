//! Reports mounts and unmounts, because no inotify event reports a mount over a directory.
//!
//! A separate thread waits for `/proc/self/mountinfo`, which is ready with `POLLPRI` after each change of the mounts
//! that this process sees (proc_pid_mountinfo(5)). The thread does not read the file.

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// The waiting thread; dropping this ends it.
#[derive(Debug)]
pub(super) struct Mounts {
    end: OwnedFd,
}

impl Drop for Mounts {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes()); // a counter of one never blocks
    }
}

impl Mounts {
    /// Calls `changed` after each change, on a separate thread.
    ///
    /// # Errors
    /// If the table of mounts cannot be opened, or no thread can be started.
    pub(super) fn follow(changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        let table = File::open("/proc/self/mountinfo")?;
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let ended = end.try_clone()?;
        let thread = move || {
            loop {
                // After a change of the table, poll(2) reports a priority event of this file (proc_pid_mounts(5)).
                let mut ready = [PollFd::new(&table, PollFlags::PRI), PollFd::new(&ended, PollFlags::IN)];
                match poll(&mut ready, None) {
                    // After a signal no event is set, and the loop waits again.
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => {
                        return tracing::error!("failed to watch mounts: {error}");
                    }
                }
                let [table, ended] = ready.map(|fd| fd.revents());
                if !ended.is_empty() {
                    return;
                }
                if table.contains(PollFlags::PRI) {
                    changed();
                }
            }
        };
        std::thread::Builder::new().name("mounts".into()).spawn(thread)?;
        Ok(Self { end })
    }
}
