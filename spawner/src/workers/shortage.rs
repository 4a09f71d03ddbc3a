//! Why a worker was not started: because of its function, or because the machine has run out of something. And descriptors that
//! are set aside, so that a start that was ordered cannot fail for want of them.

use super::*;
use fnd_wire::frame::is_shortage;
use rustix::io::Errno;

/// What the answer to an order brings: the process, and what an init reports on.
const ANSWER: usize = 2;

/// Why a start failed.
#[derive(Debug)]
pub struct NoStart {
    /// In words.
    pub why: String,
    /// What the machine has run out of, if that is why.
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

/// Says what failed, and whether the machine has run out of something.
pub(super) trait Tried<T> {
    fn tried(self, what: &str) -> Result<T, NoStart>;
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, what: &str) -> Result<T, NoStart> {
        self.map_err(|error| NoStart {
            why: format!("failed to {what}: {error}"),
            shortage: Errno::from_io_error(&error).filter(|_| is_shortage(&error)),
        })
    }
}

impl Workers {
    /// Returns what fnd is told of a worker of a function that was not started.
    pub fn not_started(
        &self,
        worker: WorkerId,
        function: FunctionId,
        NoStart { why: message, shortage }: NoStart,
    ) -> Reply {
        let group = self.active.get(&function).and_then(|active| active.group.as_ref());
        let node = match shortage {
            None => false,
            // Processes and memory are limited for each function, too.
            Some(Errno::AGAIN | Errno::NOMEM) => group.is_none_or(|group| !group.is_at_its_limits()),
            Some(_) => true,
        };
        let reply = if node { Reply::NodeCannotStart } else { Reply::SpawnFailed };
        reply(SpawnFailed { worker, message })
    }

    /// Makes room for an answer. Says whether one is waited for.
    pub(super) fn make_room(&mut self) -> bool {
        let waits = !self.aside.is_empty();
        self.aside.truncate(self.aside.len().saturating_sub(ANSWER));
        waits
    }
}

/// Sets descriptors aside for the answer to an order.
pub(super) fn set_aside() -> io::Result<Vec<OwnedFd>> {
    (0..ANSWER).map(|_| rustix::stdio::stderr().try_clone_to_owned()).collect()
}
