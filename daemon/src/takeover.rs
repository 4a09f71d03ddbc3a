//! Workers of an earlier fnd: what is left with the spawner about each, and taking them over at start.

use crate::driver::{Attached, State};
use crate::workers::output::{Meta, Piped};
use fnd_core::frame::{Held, NOTE_MAX, Request, Spawned};
use fnd_core::ids::{Attempt, InvocationId, WorkerId};
use fnd_core::supervisor::{Adopted, Note, Supervisor};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What lies with the spawner, as JSON: an older or newer fnd reads what it knows of it.
#[derive(Serialize, Deserialize)]
struct Left<'a> {
    note: Note<'a>,
    /// `limits.output`.
    output_max: u64,
}

/// Returns what to leave about a worker; nothing where that is too much (a list of hundreds of exit codes): it could then
/// not be taken over, and would be killed.
pub(crate) fn note(supervisor: &Supervisor, worker: WorkerId, meta: &Meta) -> Vec<u8> {
    let output_max = meta.output_max;
    let left = supervisor.note(worker).map(|note| Left { note, output_max });
    let bytes = left.and_then(|left| serde_json::to_vec(&left).ok());
    bytes.filter(|bytes| bytes.len() <= NOTE_MAX).unwrap_or_default()
}

/// A worker's descriptors.
pub(crate) struct Ends {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) result: Option<OwnedFd>,
    pub(crate) kill: Option<OwnedFd>,
}

impl Ends {
    /// Takes them from beside a frame, in the order it states.
    pub(crate) fn take(spawned: &Spawned, descriptors: &mut impl Iterator<Item = OwnedFd>) -> Self {
        let mut take = |present: bool| if present { descriptors.next() } else { None };
        Self {
            stdout: take(spawned.stdout),
            stderr: take(spawned.stderr),
            result: take(spawned.result),
            kill: take(spawned.kill),
        }
    }
}

/// A worker the spawner holds, and what was left about it if that can be read.
pub(crate) struct Worker {
    held: Held,
    ends: Ends,
    left: Option<Left<'static>>,
}

impl Worker {
    /// Returns its invocation.
    pub(crate) fn invocation(&self) -> Option<InvocationId> {
        self.left.as_ref().map(|left| left.note.invocation)
    }
}

/// Reads what was left about workers.
pub(crate) fn read(held: Vec<(Held, Vec<OwnedFd>)>) -> Vec<Worker> {
    let read = |(held, descriptors): (Held, Vec<OwnedFd>)| {
        let ends = Ends::take(&held.spawned, &mut descriptors.into_iter());
        let left = serde_json::from_slice(&held.note.0)
            .inspect_err(|error| {
                let worker = held.spawned.worker;
                tracing::warn!("what an earlier fnd left about {worker} cannot be read ({error}), it is killed");
            })
            .ok();
        Worker { held, ends, left }
    };
    held.into_iter().map(read).collect()
}

impl State {
    /// Goes on reading the output of workers, and returns them for the supervisor. What cannot be taken over is killed.
    pub(crate) fn attach_held(&mut self, held: Vec<Worker>) -> Vec<Adopted> {
        if !held.is_empty() {
            tracing::info!("{} workers of the fnd before this one go on", held.len());
        }
        let mut piped = Vec::new();
        let attached = held
            .into_iter()
            .filter_map(|worker| self.attach_one(worker, &mut piped));
        let adopted: Vec<Adopted> = attached.collect();
        self.output.adopt(piped);
        let known = adopted
            .iter()
            .map(|adopted| (adopted.note.invocation, Attempt(adopted.note.attempt)));
        self.output.salvage(known.collect());
        adopted
    }

    fn attach_one(&mut self, Worker { held, ends, left }: Worker, piped: &mut Vec<Piped>) -> Option<Adopted> {
        let worker = held.spawned.worker;
        let Some(Left { note, output_max }) = left else {
            self.request(&Request::Kill(worker), Vec::new());
            return None;
        };
        let Ends {
            stdout,
            stderr,
            result,
            kill,
        } = ends;
        if let (Some(stdout), Some(stderr)) = (stdout, stderr) {
            let meta = Meta {
                function: note.function.clone().into_owned(),
                invocation: note.invocation,
                attempt: Attempt(note.attempt),
                output_max,
                result_max: note.rules.result_max,
            };
            piped.push(Piped {
                worker,
                stdout,
                stderr,
                meta,
            });
        }
        self.attached.insert(worker, Attached { kill, result });
        Some(Adopted {
            worker,
            note,
            age: Duration::from_millis(held.age_ms),
            termed: held.termed.map(|(ago, cause)| (Duration::from_millis(ago), cause)),
            ended: held.spawned.pid == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for bytes in [&b""[..], b"{", b"{\"note\":{}}"] {
            assert!(serde_json::from_slice::<Left<'static>>(bytes).is_err());
        }
    }
}
