//! Workers of an earlier fnd: the adoption record that the spawner keeps about each, and their adoption at start.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;

use crate::output::{AttemptOutput, Output, Piped};
use crate::workers::http::Server;
use crate::workers::http::endpoint::Endpoint;
use crate::workers::{Attached, Workers};
use fnd_core::run::{Adopted, AdoptedMember, MemberRecord, ScriptRecord};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{self, Masked, RECORD_MAX, Request, RetainedWorker, Spawned, TermCause};
use fnd_wire::ids::{Attempt, FunctionId, InvocationId, WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The adoption record, which the spawner keeps as JSON: an older or newer fnd reads the fields that it knows.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AdoptionRecord<'a> {
    Attempt {
        note: Box<ScriptRecord<'a>>,
        /// `limits.output`.
        output_max: u64,
    },
    Member(AdoptedHandler<'a>),
}

/// The record of a handler's worker: its function and the name of its temporary files; after a hand-over also its calls in
/// flight. Without these the state of its connection is unknown, and it is killed.
#[derive(Serialize, Deserialize)]
struct AdoptedHandler<'a> {
    function: u32,
    #[serde(with = "fnd_manifest::text::id")]
    tmp: InvocationId,
    #[serde(default)]
    handed_over: Option<Box<MemberRecord<'a>>>,
    /// Whether it wants the variables of a request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    variables: bool,
    /// Its address and key, where it serves HTTP.
    #[serde(flatten)]
    endpoint: Endpoint,
}

/// Returns the adoption record of a worker; empty where it is too large: the worker cannot be adopted then, and would
/// be killed.
pub(crate) fn adoption_record(tmp: Option<(FunctionId, InvocationId)>, script: Option<ScriptRecord<'_>>) -> Vec<u8> {
    let record = match tmp {
        Some((FunctionId(function), tmp)) => bytes(&AdoptedHandler {
            function,
            tmp,
            handed_over: None,
            variables: false,
            endpoint: Endpoint::default(),
        }),
        None => script.and_then(|script| {
            let output_max = script.rules.output_max;
            let note = Box::new(script);
            bytes(&AdoptionRecord::Attempt { note, output_max })
        }),
    };
    record.unwrap_or_default()
}

/// Returns a record as JSON; `record` is an [`AdoptionRecord`] or the content of a variant.
fn bytes(record: &impl Serialize) -> Option<Vec<u8>> {
    let bytes = serde_json::to_vec(record).ok()?;
    if bytes.len() > RECORD_MAX {
        let length = bytes.len();
        tracing::error!(
            "the adoption record of a worker has {length} bytes, more than fnd-spawner accepts ({RECORD_MAX}): its work is interrupted at a restart"
        );
        return None;
    }
    Some(bytes)
}

/// A worker's descriptors.
pub(crate) struct PipeEnds {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) result: Option<OwnedFd>,
    pub(crate) kill: Option<OwnedFd>,
    /// The socket of a handler's worker that speaks the worker protocol.
    pub(super) channel: Option<OwnedFd>,
}

impl PipeEnds {
    /// Takes the descriptors that came with a frame, in the order it states. The channel follows the others.
    pub(crate) fn take(spawned: &Spawned, descriptors: Vec<OwnedFd>) -> Self {
        let mut descriptors = descriptors.into_iter();
        let mut take = |present: bool| if present { descriptors.next() } else { None };
        Self {
            stdout: take(spawned.stdout),
            stderr: take(spawned.stderr),
            result: take(spawned.result),
            kill: take(spawned.kill),
            channel: descriptors.next(),
        }
    }
}

/// A worker that the spawner holds, and its adoption record if that can be read.
pub(crate) struct AdoptedWorker {
    held: RetainedWorker,
    ends: PipeEnds,
    record: Option<AdoptionRecord<'static>>,
    /// When the spawner's times were right, by the monotonic clock: opening the history takes a while after that.
    read: Duration,
}

impl AdoptedWorker {
    /// Returns the attempts that run in it.
    pub(crate) fn attempts(&self) -> Vec<(InvocationId, u32)> {
        match &self.record {
            Some(AdoptionRecord::Attempt { note, .. }) => vec![(note.run.invocation, note.run.attempt)],
            Some(AdoptionRecord::Member(handler)) => {
                let calls = handler.handed_over.iter().flat_map(|member| &member.calls);
                calls.map(|call| (call.run.invocation, call.run.attempt)).collect()
            }
            None => Vec::new(),
        }
    }
}

/// Reads the adoption records of workers, which the spawner has just sent.
pub(crate) fn read(held: Vec<(RetainedWorker, Vec<OwnedFd>)>, mono: Duration) -> Vec<AdoptedWorker> {
    let read = |(held, descriptors): (RetainedWorker, Vec<OwnedFd>)| {
        let ends = PipeEnds::take(&held.spawned, descriptors);
        let record = serde_json::from_slice(&held.record.0)
            .inspect_err(|error| {
                let worker = held.spawned.worker;
                tracing::warn!("the adoption record of {worker} cannot be read ({error}), so the worker is killed");
            })
            .ok();
        AdoptedWorker {
            held,
            ends,
            record,
            read: mono,
        }
    };
    held.into_iter().map(read).collect()
}

impl Workers {
    /// Continues to read the output of workers, and returns them for the supervisor. A worker that cannot be adopted is
    /// killed.
    pub(crate) fn attach_held(
        &mut self,
        (held, masks): (Vec<AdoptedWorker>, Vec<Masked>),
        output: &Output,
    ) -> (Vec<Adopted>, Vec<AdoptedMember>) {
        masks.into_iter().for_each(|masked| self.masks.keep(masked));
        // Those of workers whose start an earlier fnd still requested may have no end.
        let there: HashSet<WorkerId> = held.iter().map(|worker| worker.held.spawned.worker).collect();
        self.masks.retain(|worker| there.contains(&worker));
        if !held.is_empty() {
            tracing::info!("{} workers of the previous fnd continue", held.len());
        }
        let (mut piped, mut adopted, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for mut worker in held {
            match worker.record.take() {
                Some(AdoptionRecord::Member(record)) => members.extend(self.attach_member(worker, record, output)),
                Some(AdoptionRecord::Attempt { note, output_max }) => {
                    adopted.push(self.attach_script(worker, (*note, output_max), &mut piped));
                }
                None => self.request(&Request::Kill(worker.held.spawned.worker)),
            }
        }
        // No more output comes of a worker without pipes: what is spooled of it is kept now.
        let known = piped.iter().map(|piped| piped.meta.key()).collect();
        output.adopt(piped);
        output.salvage(known);
        (adopted, members)
    }

    fn attach_member(
        &mut self,
        adopted: AdoptedWorker,
        mut record: AdoptedHandler<'static>,
        output: &Output,
    ) -> Option<AdoptedMember> {
        let since = self.clock.now().mono.saturating_sub(adopted.read);
        let (held, ends) = (adopted.held, adopted.ends);
        let worker = held.spawned.worker;
        let handed_over = record.handed_over.take();
        if handed_over.is_some() {
            // The calls in the record are right only until the first message between fnd and the worker. If this fnd
            // crashes, the next one must not rely on them.
            self.replace_record(worker, bytes(&record), None);
        }
        let AdoptedHandler {
            function,
            tmp,
            variables,
            endpoint,
            ..
        } = record;
        let mut attached = Attached {
            kill: ends.kill,
            tmp: Some((FunctionId(function), tmp)),
            ..Attached::default()
        };
        if let (Some(member_record), Some(stdout), Some(stderr)) = (&handed_over, ends.stdout, ends.stderr) {
            let mask = self.masks.of(worker);
            let meta = |invocation, attempt| AttemptOutput {
                function: member_record.function.clone().into_owned(),
                invocation,
                attempt: Attempt(attempt),
                output_max: member_record.rules.output_max,
                result_max: member_record.rules.result_max,
                // Only the output of scripts can be a CGI document.
                cgi: false,
                mask: mask.cloned(),
            };
            let piped = Piped {
                worker,
                stdout,
                stderr,
                meta: meta(tmp, 0),
            };
            // A worker that was ready has told how many calls it takes. This one was not ready when the earlier fnd
            // left.
            if member_record.concurrency.is_none() {
                // The functions are not scanned yet, so the worker's user is not known.
                attached.readiness_probe = self.probe_readiness(worker, (None, &member_record.rules), endpoint.clone());
            }
            let server = member_record.rules.kind.http().map(|_| Server::new(None, endpoint));
            let under_way = member_record.calls.iter();
            let under_way = under_way.map(|call| (call.call, meta(call.run.invocation, call.run.attempt)));
            attached.member = self.take_on(
                worker,
                (ends.channel, server),
                &member_record.rules,
                (output, piped, under_way.collect()),
            );
            if let Some(member) = &mut attached.member {
                member.variables = variables;
                // A conversation goes on where it was. A request of HTTP has ended with the connection of the earlier
                // fnd.
                let lost = member_record.calls.iter().filter(|_| member.server.is_some());
                self.lost.extend(lost.map(|call| (worker, call.call)));
            }
        }
        // Without a record of the hand-over nobody knows which calls are under way, so such a worker is killed below.
        let goes_on = attached.member.is_some();
        self.attached.insert(worker, attached);
        if !goes_on {
            self.request(&Request::Kill(worker));
        }
        Some(AdoptedMember {
            worker,
            record: *handed_over.filter(|_| goes_on)?,
            age: Duration::from_millis(held.age_ms) + since,
            ended: held.spawned.pid == 0,
            is_fenced: matches!(held.termed, Some((_, TermCause::TimeUp))),
        })
    }

    /// Stores with the spawner the record by which the next fnd can adopt a handler's worker. Its conversation is
    /// between two messages.
    pub(crate) fn leave_member(&mut self, worker: WorkerId, member_record: MemberRecord<'_>) {
        let tmp = self.attached.get(&worker).and_then(|attached| attached.tmp);
        let Some((FunctionId(function), tmp)) = tmp else { return };
        let member = self.member(worker);
        let server = member.and_then(|member| member.server.as_ref());
        let record = bytes(&AdoptedHandler {
            function,
            tmp,
            handed_over: Some(Box::new(member_record)),
            variables: member.is_some_and(|member| member.variables),
            endpoint: server.map(|server| server.endpoint()).unwrap_or_default(),
        });
        let connection = match self.conversation(worker).map(|conversation| conversation.connection()) {
            None => None,
            Some(Ok(connection)) => connection,
            Some(Err(error)) => {
                tracing::error!("failed to hand {worker} over to the next fnd, which kills it: {error}");
                return;
            }
        };
        self.replace_record(worker, record, connection);
    }

    /// Has the spawner keep this record about a worker, in place of the one before, and its connection.
    fn replace_record(&mut self, worker: WorkerId, record: Option<Vec<u8>>, connection: Option<OwnedFd>) {
        if let Some(record) = record {
            let record = Bytes(record);
            let request = Request::AdoptionRecord(frame::AdoptionRecord { worker, record });
            self.send(&request, connection.into_iter().collect());
        }
    }

    fn attach_script(
        &mut self,
        adopted: AdoptedWorker,
        (record, output_max): (ScriptRecord<'static>, u64),
        piped: &mut Vec<Piped>,
    ) -> Adopted {
        let since = self.clock.now().mono.saturating_sub(adopted.read);
        let (held, ends) = (adopted.held, adopted.ends);
        let worker = held.spawned.worker;
        if let (Some(stdout), Some(stderr)) = (ends.stdout, ends.stderr) {
            let meta = AttemptOutput {
                function: record.function.clone().into_owned(),
                invocation: record.run.invocation,
                attempt: Attempt(record.run.attempt),
                output_max,
                result_max: record.rules.result_max,
                cgi: record.run.cgi,
                mask: self.masks.of(worker).cloned(),
            };
            piped.push(Piped {
                worker,
                stdout,
                stderr,
                meta,
            });
        }
        let attached = Attached {
            kill: ends.kill,
            result: ends.result,
            ..Attached::default()
        };
        self.attached.insert(worker, attached);
        Adopted {
            worker,
            record,
            age: Duration::from_millis(held.age_ms) + since,
            termed: held
                .termed
                .map(|(ago, cause)| (Duration::from_millis(ago) + since, cause)),
            // The spawner names no process of a worker that has ended already.
            ended: held.spawned.pid == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for bytes in [&b""[..], b"{", b"{\"note\":{}}"] {
            assert!(serde_json::from_slice::<AdoptionRecord<'static>>(bytes).is_err());
        }
    }
}
