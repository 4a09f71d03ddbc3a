//! Makes the parts of a start that do not depend on the attempt: the leaf, the pipes, the result file.
//!
//! After the end of a run they are made for the function's next one, since nobody waits then. A start that finds nothing
//! ready makes them itself. Also sets descriptors aside, so that a start that was ordered can't fail for want of them.

use super::*;

/// Most functions for which a start is kept ready; each takes nine descriptors, eleven with memory in cgroup2.
const READY_MAX: usize = 64;

/// Number of descriptors in the answer to an order: that of the process, and the channel of an init.
const ANSWER: usize = 2;

/// The parts of a start.
pub(super) struct ReadyStart {
    /// The owner of the pipes and the result file; absent: this process's user.
    owner: Option<Identity>,
    /// The leaf, and its directory for `CLONE_INTO_CGROUP`; absent without cgroups.
    pub(super) leaf: Option<(Leaf, OwnedFd)>,
    /// Standard output and standard error, each with its reading end first.
    pub(super) pipes: [(OwnedFd, OwnedFd); 2],
    /// The result file in the spare directory; absent where there is none.
    pub(super) result: Option<File>,
}

impl Active {
    /// Returns the parts for a start, which are ready or are made now.
    ///
    /// # Errors
    /// If the kernel refuses one of them; then none is left.
    pub(super) fn take_ready(&mut self, leaves: &mut u64, owner: Option<&Identity>) -> io::Result<ReadyStart> {
        match self.ready.take() {
            Some(ready) if ready.owner.as_ref() == owner => return Ok(ready),
            // The function has another user now. If the empty leaf stays, it goes with its function's group.
            other => drop(other.and_then(|ready| ready.leaf).map(|(leaf, _)| leaf.remove())),
        }
        *leaves += 1;
        let pipe = || {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            // The function's user has to own the pipes. Otherwise programs can't open them again, as `echo
            // >/dev/stderr` does.
            owned(&write, owner).map(|()| (read, write))
        };
        let pipes = [pipe()?, pipe()?];
        let leaf = self.group.as_ref().map(|group| Leaf::make(group, &format!("w{leaves}"))).transpose()?;
        Ok(ReadyStart { owner: owner.cloned(), leaf, pipes, result: None })
    }
}

impl WorkerTable {
    /// Makes the next start of a function's scripts ready. If something is missing, the start itself makes it, or says why
    /// it can't.
    pub fn make_ready(&mut self, function: FunctionId, places: &FunctionPlaces) {
        let mut all = self.launchers.values().filter(|launcher| launcher.function == function);
        let serves = |it: &&Launcher| !(it.retired || it.watch || it.plan.mode.handler().is_some());
        let Some(launcher) = all.find(serves) else { return };
        let has_room = self.active.values().filter(|active| active.ready.is_some()).count() < READY_MAX;
        let Some(active) = self.active.get_mut(&function).filter(|it| has_room && it.ready.is_none()) else { return };
        let owner = launcher.identity.as_ref();
        let made = active.take_ready(&mut self.leaves, owner);
        active.ready = made.ok().map(|ready| ReadyStart { result: places.make_spare_result(owner).ok(), ..ready });
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

/// Gives a pipe to a function's user.
pub(super) fn owned(end: &OwnedFd, owner: Option<&Identity>) -> io::Result<()> {
    owner.map_or(Ok(()), |owner| std::os::unix::fs::fchown(end, Some(owner.uid), Some(owner.gid)))
}
