//! The fingerprints of the secrets that each worker can print. The spawner reports them before the worker's start.

use crate::output::message;
use fnd_core::mask::Mask;
use fnd_core::records::RunResult;
use fnd_core::records::outcome::Reason;
use fnd_core::run::{Answered, Event};
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

    fn message(&self, worker: WorkerId, message: &mut String) {
        if let Some(mask) = self.of(worker) {
            mask.message(message);
        }
    }

    /// Returns a message of a worker as records have it. Values of secrets are masked first, because a value may contain
    /// characters that are escaped afterwards. `state` is fnd's state directory.
    pub(crate) fn shown(&self, state: &str, worker: WorkerId, mut message: String) -> String {
        self.message(worker, &mut message);
        message::shown(state, &message)
    }

    /// Returns the answer to a call for the supervisor. Every record takes the masked copy. The result itself stays raw, for
    /// the caller and the next poll.
    pub(crate) fn answered(
        &self,
        state: &str,
        (worker, call): (WorkerId, u64),
        (reason, message): (Reason, String),
        mut result: Option<RunResult>,
    ) -> Box<Answered> {
        if let (Some(result), Some(mask)) = (&mut result, self.of(worker)) {
            mask.result(result);
        }
        Box::new(Answered {
            worker,
            call,
            reason,
            message: self.shown(state, worker, message),
            result,
        })
    }

    /// Masks the values of secrets in the other messages about workers.
    pub(crate) fn event(&self, event: &mut Event) {
        if let Event::Broken { worker, message } | Event::NotReady { worker, why: message } = event {
            self.message(*worker, message);
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
            let worker = WorkerId(worker);
            let shown = masks.shown("/state", worker, "no hunter22".to_owned());
            assert_eq!(shown, expected);
            let mut event = Event::Broken {
                worker,
                message: "no hunter22".to_owned(),
            };
            masks.event(&mut event);
            assert!(matches!(event, Event::Broken { message, .. } if message == expected));
        }
    }

    #[test]
    fn an_answer_names_no_secret_and_no_installed_version_and_its_result_stays_raw() {
        let mut masks = WorkerMasks::default();
        masks.keep(masked(1, b"hunter22"));
        let result = RunResult {
            json: true,
            data: b"hunter22".to_vec().into(),
            response: None,
            kept: None,
        };
        let message = "/state/versions/f/09af/code/a.py: hunter22".to_owned();
        let answered = masks.answered("/state", (WorkerId(1), 7), (Reason::Failed, message), Some(result));
        assert_eq!((answered.call, &*answered.message), (7, "a.py: ***"));
        assert_eq!(&answered.result.unwrap().data[..], b"hunter22");
    }
}
