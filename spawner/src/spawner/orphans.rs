//! Waits for orphans: processes whose parent has ended. The spawner becomes their parent and waits for each as it ends.
//! If they were left to a pid 1 that waits slowly or never, they would count against the function's limit of processes.

use super::*;
use crate::process::reap;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, sigaction};

/// Largest number of orphans that are waited for in one turn of the loop.
const TURN: usize = 64;
/// How soon the spawner tries again if the first ended child is not an orphan.
const AGAIN: Duration = Duration::from_millis(10);

/// Makes this process the parent of orphans. The kernel then signals only their ends, not each stop.
#[expect(unsafe_code, reason = "changes how a signal is handled")]
pub(super) fn adopt() -> nix::Result<()> {
    let quiet = SigAction::new(SigHandler::SigDfl, SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: there is no handler.
    unsafe { sigaction(Signal::SIGCHLD, &quiet) }?;
    // Without it pid 1 is their parent.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    Ok(())
}

impl Spawner {
    /// Waits for ended children that no other part of the spawner waits for. If the first ended child is known, its end
    /// is handled first: a worker's at once, the others' by their own events.
    pub(super) fn reap_orphans(&mut self) {
        for _ in 0..TURN {
            let Some(pid) = reap::first_ended() else { return self.orphans = None };
            let (worker, launcher) = self.workers.who_is(pid);
            if let Some(worker) = worker {
                self.handle((Token::Worker, worker));
                continue;
            }
            if launcher || self.helpers.has(pid) || self.judge.is(pid) || self.workers.may_be_starting(pid) {
                return self.orphans = Some(now() + AGAIN); // its end is about to be handled elsewhere
            }
            reap::orphan(pid);
        }
        // More children may have ended. Other events come first.
        self.orphans = Some(now());
    }
}
