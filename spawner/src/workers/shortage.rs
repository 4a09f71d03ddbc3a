//! Distinguishes starts that failed because of the function from those that failed because the machine has run out of
//! something. Also sets descriptors aside, so that a start that was ordered can't fail for want of them.

use super::*;
use rustix::io::Errno;

/// Number of descriptors in the answer to an order: that of the process, and the channel of an init.
const ANSWER: usize = 2;

/// Why a start failed.
pub struct NoStart {
    /// The reason, for people.
    pub why: String,
    /// The error, if the machine has run out of something and this is the reason.
    pub shortage: Option<Errno>,
}

impl From<String> for NoStart {
    fn from(why: String) -> Self {
        Self { why, shortage: None }
    }
}

impl From<&str> for NoStart {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// Adds the name of the failed step to an error, and whether the machine has run out of something.
pub(super) fn tried(what: &str) -> impl Fn(io::Error) -> NoStart {
    move |error| NoStart { why: format!("failed to {what}: {error}"), shortage: clone::shortage(&error) }
}

/// The same for a step in the function's cgroup.
pub(super) fn tried_in_group(what: &str) -> impl Fn(io::Error) -> NoStart {
    move |error| NoStart { shortage: clone::shortage_in_group(&error), ..tried(what)(error) }
}

impl WorkerTable {
    /// Returns the answer for a worker of a function that was not started.
    pub fn not_started(&self, worker: WorkerId, function: FunctionId, why: NoStart) -> Reply {
        let group = self.active.get(&function).and_then(|active| active.group.as_ref());
        let node = match why.shortage {
            None => false,
            // Each function also has its own limit of processes and memory.
            Some(Errno::AGAIN | Errno::NOMEM) => group.is_none_or(|group| !group.is_at_its_limits()),
            Some(_) => true,
        };
        let failed = SpawnFailed { worker, message: why.why };
        if node { Reply::NodeCannotStart(failed) } else { Reply::SpawnFailed(failed) }
    }

    /// Makes room for the descriptors of an answer. Returns whether an answer is expected.
    pub(super) fn make_room(&mut self) -> bool {
        let waits = !self.aside.is_empty();
        self.aside.truncate(self.aside.len().saturating_sub(ANSWER));
        waits
    }
}

/// Returns descriptors that are set aside for the answer to an order.
pub(super) fn set_aside() -> io::Result<Vec<OwnedFd>> {
    // A copy of any descriptor will do, since it only takes a number.
    (0..ANSWER).map(|_| rustix::stdio::stderr().try_clone_to_owned()).collect()
}
