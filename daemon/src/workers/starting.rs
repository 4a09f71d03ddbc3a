//! The start of a worker: the request to the spawner, and the books of a worker that the spawner has started.

use super::adoption::{PipeEnds, adoption_record};
use super::http::Server;
use super::http::endpoint::Endpoint;
use super::requests::{PendingRequest, Starting};
use super::{Attached, Workers, environment, http};
use crate::output::{AttemptOutput, Output, Piped};
use fnd_core::run::{Event, ScriptRecord, SpawnOrder};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Request, Spawn, is_shortage};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::io;
use std::sync::Arc;

/// A start that is prepared: nothing of it exists outside fnd.
pub(crate) struct PreparedStart {
    passed: environment::PassedVariables,
    endpoint: Endpoint,
}

impl Workers {
    /// Prepares the start of a worker: its variables, its descriptors and its address. `user` is the user of the function's version that serves.
    ///
    /// # Errors
    /// The event to handle in place of the start.
    pub(crate) fn prepare(&self, order: &SpawnOrder, user: Option<u32>) -> Result<PreparedStart, Box<Event>> {
        let worker = order.worker;
        let failed = |what: &str, error: io::Error| {
            let message = format!("failed to {what}: {error}");
            Box::new(if is_shortage(&error) {
                Event::NodeCannotStart { worker, message }
            } else {
                Event::SpawnFailed { worker, message }
            })
        };
        let mut passed =
            environment::pass(order, self.welcome.protocol).map_err(|error| failed("prepare its input", error))?;
        let endpoint = http::endpoint(&order.rules, &self.sockets, (worker, user))
            .map_err(|error| failed("find a place for it to listen", error))?;
        passed.environment.extend(http::variables(&endpoint));
        Ok(PreparedStart { passed, endpoint })
    }

    /// Asks the spawner to start a worker. `invocation` is that of its attempt; for a worker without an attempt it
    /// names the temporary files. `script` is the handover record of a script.
    pub(crate) fn start(
        &mut self,
        order: &SpawnOrder,
        prepared: PreparedStart,
        invocation: InvocationId,
        script: Option<ScriptRecord<'_>>,
    ) {
        let PreparedStart { passed, endpoint } = prepared;
        let attempt = order.attempt.as_ref().map_or(Attempt(0), |run| run.attempt);
        // A handler's worker has its own temporary files, from its start to its end.
        let tmp = order.attempt.is_none().then_some((order.id, invocation));
        let meta = AttemptOutput {
            function: order.function.clone(),
            invocation,
            attempt,
            output_max: order.rules.output_max,
            result_max: order.rules.result_max,
            cgi: order.attempt.as_ref().is_some_and(|run| run.payload.is_cgi()),
            // The spawner reports it with the start.
            mask: None,
        };
        let request = Request::Spawn(Spawn {
            worker: order.worker,
            function: order.id,
            version: order.version,
            invocation,
            environment: passed.environment,
            input: passed.input,
            previous: passed.previous,
            lasts_ms: order
                .lasts
                // For the spawner 0 means without limit, so a limit below one millisecond becomes one.
                .map_or(0, |lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).max(1)),
            record: Bytes(adoption_record(tmp, script)),
        });
        let starting = Starting {
            worker: order.worker,
            meta,
            rules: Arc::clone(&order.rules),
            tmp,
            endpoint,
        };
        self.ask(&request, passed.descriptors, PendingRequest::Spawn(Box::new(starting)));
    }

    /// Attaches a worker that the spawner has started. Returns the event that says whether it can work.
    pub(crate) fn started(&mut self, starting: Starting, ends: PipeEnds, output: &Output, user: Option<u32>) -> Event {
        let (worker, rules, endpoint) = (starting.worker, starting.rules, starting.endpoint);
        let mut meta = starting.meta;
        // The fingerprints arrived after the request was made, together with this answer.
        meta.mask = self.masks.of(worker).cloned();
        let mut member = None;
        if let (Some(stdout), Some(stderr)) = (ends.stdout, ends.stderr) {
            let piped = Piped {
                worker,
                stdout,
                stderr,
                meta,
            };
            // The output of a warm worker is split at the marks of its calls. A script's output belongs to its only
            // attempt.
            if rules.kind.pool().is_some() {
                let server = rules.kind.http().map(|_| Server::new(user, endpoint.clone()));
                member = self.take_on(worker, (ends.channel, server), &rules, (output, piped, Vec::new()));
            } else {
                output.attach(piped);
            }
        }
        let is_unreachable = rules.kind.pool().is_some() && member.is_none();
        let readiness_probe = self.probe_readiness(worker, (user, &rules), endpoint);
        let attached = Attached {
            kill: ends.kill,
            result: ends.result,
            member,
            readiness_probe,
            tmp: starting.tmp,
        };
        self.attached.insert(worker, attached);
        if is_unreachable {
            // The kernel drops descriptors for which there is no room. The worker has no work yet, and its function is
            // not to blame.
            self.kill(worker);
            let message = "there is no connection to a new worker: too many files are open in fnd".to_owned();
            return Event::NodeCannotStart { worker, message };
        }
        Event::Spawned(worker)
    }

    /// Forgets a start that failed, and removes the temporary files that the spawner has made for a handler's worker.
    pub(crate) fn forget_start(&mut self, request: u32, worker: WorkerId) {
        if let Some(PendingRequest::Spawn(starting)) = self.pending.remove(&request) {
            self.release_tmp(starting.tmp);
        }
        self.masks.forget(worker);
    }
}
