//! The fingerprints of the secrets that each worker can print. The spawner reports them before the worker's start.

use fnd_core::mask::Mask;
use fnd_wire::frame::Masked;
use fnd_wire::ids::WorkerId;
use std::collections::HashMap;
use std::sync::Arc;

/// The fingerprints of each worker whose function has secrets, until the worker's end is recorded.
#[derive(Debug, Default)]
pub(crate) struct WorkerMasks(HashMap<WorkerId, Arc<Mask>>);

impl WorkerMasks {
    /// Keeps what the spawner reports. Workers with the same secrets share it.
    pub(crate) fn keep(&mut self, Masked { worker, masks }: Masked) {
        let same = self.0.values().find(|mask| mask.is_of(&masks)).map(Arc::clone);
        self.0
            .insert(worker, same.unwrap_or_else(|| Arc::new(Mask::new(masks))));
    }

    /// Returns the fingerprints of a worker; nothing where its function has no secrets.
    pub(crate) fn of(&self, worker: WorkerId) -> Option<&Arc<Mask>> {
        self.0.get(&worker)
    }

    /// Masks the values of secrets in a message that came from a worker.
    pub(crate) fn message(&self, worker: WorkerId, message: &mut String) {
        if let Some(mask) = self.of(worker) {
            mask.message(message);
        }
    }

    /// Forgets a worker that is gone.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }

    /// Forgets all workers but these.
    pub(crate) fn retain(&mut self, is_there: impl Fn(WorkerId) -> bool) {
        self.0.retain(|worker, _| is_there(*worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::mask::Masks;

    fn masked(worker: u64, value: &[u8]) -> Masked {
        Masked {
            worker: WorkerId(worker),
            masks: Masks::of(1 << 60, [value]).unwrap(),
        }
    }

    #[test]
    fn workers_with_the_same_secrets_share_their_fingerprints() {
        let mut masks = WorkerMasks::default();
        masks.keep(masked(1, b"hunter22"));
        masks.keep(masked(2, b"hunter22"));
        masks.keep(masked(3, b"s3cret-key"));
        let of = |masks: &WorkerMasks, worker| masks.of(WorkerId(worker)).cloned();
        let (one, two, three) = (of(&masks, 1).unwrap(), of(&masks, 2).unwrap(), of(&masks, 3).unwrap());
        assert!(Arc::ptr_eq(&one, &two) && one != three);
        masks.forget(WorkerId(1));
        masks.retain(|worker| worker != WorkerId(3));
        assert!(of(&masks, 1).is_none() && of(&masks, 2).is_some() && of(&masks, 3).is_none());
    }

    #[test]
    fn a_message_is_masked_with_the_secrets_of_its_worker() {
        let mut masks = WorkerMasks::default();
        masks.keep(masked(1, b"hunter22"));
        for (worker, expected) in [(1, "no ***"), (2, "no hunter22")] {
            let mut message = "no hunter22".to_owned();
            masks.message(WorkerId(worker), &mut message);
            assert_eq!(message, expected);
        }
    }
}
