//! Processes that outlived who started them: the spawner is their parent then, and waits for each as it ends. Where pid 1 is
//! slow to do that, or never does, they count against the function's limit of processes.

use super::*;
use crate::reap;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, sigaction};

/// Most that are waited for in one turn of the loop.
const TURN: usize = 64;
/// How soon it is looked again where somebody else's child stands first.
const AGAIN: Duration = Duration::from_millis(10);

/// Makes this process the parent of orphans, and has it told of ends only, not of every stop.
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
    /// Waits for ended children that nobody else waits for. One that is known comes first where it stands first: whose it is
    /// gets told of it.
    pub(super) fn reap_orphans(&mut self) {
        for _ in 0..TURN {
            let Some(pid) = reap::first_ended() else {
                return self.orphans = None;
            };
            let (worker, launcher) = self.workers.who_is(pid);
            if let Some(worker) = worker {
                self.handle(Token::Worker(worker));
                continue;
            }
            if launcher || self.helpers.has(pid) || self.judge.is(pid) || self.workers.may_be_starting(pid) {
                return self.orphans = Some(now() + AGAIN); // its own end is about to be told
            }
            reap::orphan(pid);
        }
        self.orphans = Some(now());
    }
}
