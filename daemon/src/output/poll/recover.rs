//! The spools that an earlier fnd has left: adopted where the worker still exists, kept where it does not.

use super::OutputThread;
use crate::clock;
use crate::output::capture::Capture;
use crate::output::log_store::LogStore;
use crate::output::spool::{Loss, Replayed, Spool, Spools};
use crate::output::{AttemptKey, AttemptOutput};
use fnd_wire::ids::FunctionName;
use std::collections::{HashMap, HashSet};

/// Attempts with spools, and how many of their lines are in the kept output. Only the kept output can tell that number.
/// It is absent until they are counted: a spool that was only made, or is lost, does not name the function.
#[derive(Default)]
pub(super) struct SpooledAttempts(HashMap<AttemptKey, Option<u64>>);

impl SpooledAttempts {
    pub(super) fn find(spools: &mut Spools, store: &LogStore) -> Self {
        let keys = spools.list().unwrap_or_else(|error| {
            tracing::error!("failed to search for spooled output ({error}), earlier output of functions is missing");
            Vec::new()
        });
        let metas: Vec<AttemptOutput> = keys.iter().filter_map(|key| spools.meta(*key)).collect();
        let mut spooled = Self(keys.into_iter().map(|key| (key, None)).collect());
        spooled.count(metas.iter(), store);
        spooled
    }

    /// Counts the kept lines of attempts that were not counted yet. An attempt without a spool may have some, too: it
    /// has ended, and its output was still in its pipes.
    pub(super) fn count<'a>(&mut self, metas: impl Iterator<Item = &'a AttemptOutput>, store: &LogStore) {
        let mut functions: HashMap<&FunctionName, HashMap<_, u64>> = HashMap::new();
        for meta in metas.filter(|meta| !matches!(self.0.get(&meta.key()), Some(Some(_)))) {
            functions.entry(&meta.function).or_default().insert(meta.key(), 0);
        }
        for (function, mut attempts) in functions {
            if let Err(error) = store.count(function, &mut attempts) {
                tracing::warn!("failed to read the kept output of `{function}` ({error}), lines may be in it twice");
            }
            self.0
                .extend(attempts.into_iter().map(|(key, count)| (key, Some(count))));
        }
    }
}

impl OutputThread {
    /// Restores the state that an earlier fnd had of an attempt. Returns its capture, its spool, and how many lines are
    /// kept already.
    pub(super) fn recover(&mut self, meta: AttemptOutput) -> (Capture, Spool, u64) {
        let key = meta.key();
        let stored = self.spooled.0.remove(&key).flatten().unwrap_or(0);
        let replayed = self.io.spools.replay(key, meta.mask.as_ref()).unwrap_or_else(|error| {
            tracing::warn!("failed to read the output spooled for {} ({error})", key.0);
            Replayed::Lost(Loss::Damaged)
        });
        match replayed {
            Replayed::Nothing => {
                // The spool was made and not written to.
                self.io.spools.remove(key);
                (Capture::new(meta), Spool::None, stored)
            }
            Replayed::Whole { capture, spool } => (*capture, spool, stored),
            Replayed::Lost(loss) => {
                let sinks = &mut self.io.sinks;
                let whose = meta.clone();
                let note = (clock::unix_ms(), loss.words());
                let mut capture = Capture::after_loss(meta, stored, note, &mut |line, in_head| {
                    sinks.seen(&whose, line, in_head);
                });
                if loss != Loss::Damaged && whose.mask.is_none() {
                    capture.withheld = true;
                }
                // Written anew at once: otherwise the next restart would find the damaged spool, and lose the output
                // from here on.
                let mut spool = Spool::Failed;
                self.io.spools.rewrite(&mut spool, &mut capture);
                (capture, spool, stored)
            }
        }
    }

    /// Keeps the output of the attempts that are left and not known, and removes their spools.
    pub(super) fn salvage(&mut self, known: &HashSet<AttemptKey>) {
        let lost: Vec<_> = self.spooled.0.extract_if(|key, _| !known.contains(key)).collect();
        for (key, stored) in lost {
            // Nobody has the fingerprints of its secrets any more.
            let kept = match self.io.spools.replay(key, None) {
                Ok(Replayed::Whole { mut capture, .. }) => {
                    capture.end(capture.last_ms, &mut |_, _| {});
                    self.keep(&mut capture, stored.unwrap_or(0))
                }
                Ok(Replayed::Lost(loss)) if loss != Loss::Damaged => self.note_loss(key, loss, stored.unwrap_or(0)),
                Ok(Replayed::Nothing | Replayed::Lost(_)) => true,
                Err(error) => {
                    tracing::warn!("failed to read the output spooled for {} ({error})", key.0);
                    true
                }
            };
            // Without room on the disk the spool stays for the next start.
            if kept {
                self.io.spools.remove(key);
            }
        }
    }

    /// Notes in the kept output of an attempt that its last output is lost. Returns whether the note is on the disk.
    fn note_loss(&mut self, key: AttemptKey, loss: Loss, stored: u64) -> bool {
        let Some(meta) = self.io.spools.meta(key) else {
            return true;
        };
        let mut capture = Capture::after_loss(meta, stored, (clock::unix_ms(), loss.words()), &mut |_, _| {});
        capture.end(capture.last_ms, &mut |_, _| {});
        self.keep(&mut capture, stored)
    }
}
