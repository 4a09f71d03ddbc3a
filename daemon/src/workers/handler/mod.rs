//! Workers that stay: what is attached to each, and the messages in both directions. Workers that serve HTTP get their
//! calls as requests (`http`), and report at most their address.

pub mod conversation;

use crate::http::live_answer::{LiveAnswer, LiveWriter};
use crate::input::{Inbox, Input, TaskOwner};
use crate::output::{AttemptKey, AttemptOutput, CallOutput, CallOutputEnd, Output, Piped};
use crate::workers::handler::conversation::{Conversation, ConversationEnd};
use crate::workers::http::Server;
use crate::workers::{OutputRead, Workers, environment};
use fnd_core::instant;
use fnd_core::json;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Reason;
use fnd_core::records::protocol::{
    self, InvokeHead, Level, LogRecord, ProtocolError, ProtocolFailure, ResultHead, WorkerMessage,
};
use fnd_core::run::{Answered, CallOrder, Event, Rules};
use fnd_manifest::json_text::JsonText;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// The connections and calls of a worker that stays.
pub(crate) struct WarmWorker {
    /// Present where the worker speaks the protocol on descriptor 3.
    connection: Option<WorkerConnection>,
    /// Present where it serves HTTP.
    pub(crate) server: Option<Rc<Server>>,
    call_output: CallOutput,
    /// Whether it wants the variables of a request.
    pub(crate) variables: bool,
    calls: BTreeMap<u64, AttemptKey>,
    /// The calls whose results come as streams; nothing where no caller wants the bytes as they come.
    streams: BTreeMap<u64, Option<LiveWriter>>,
}

/// A conversation that is going on, and its task.
struct WorkerConnection {
    conversation: Rc<Conversation>,
    task: AbortHandle,
}

impl Drop for WorkerConnection {
    fn drop(&mut self) {
        // An aborted task goes on until it waits. Until then this keeps it from handing on messages.
        self.conversation.hang_up();
        self.task.abort();
    }
}

impl WarmWorker {
    /// Returns its conversation, where it speaks the protocol.
    pub(crate) fn conversation(&self) -> Option<Rc<Conversation>> {
        self.connection
            .as_ref()
            .map(|connection| Rc::clone(&connection.conversation))
    }
}

impl Workers {
    /// Attaches a worker that was started: its conversation, where it has one, and its output. `under_way` are the
    /// calls that an earlier fnd handed over with it. Returns nothing where fnd has no way to reach the worker.
    pub(crate) fn take_on(
        &mut self,
        worker: WorkerId,
        (channel, server): (Option<OwnedFd>, Option<Rc<Server>>),
        rules: &Rules,
        (output, piped, under_way): (&Output, Piped, Vec<(u64, AttemptOutput)>),
    ) -> Option<WarmWorker> {
        let calls = rules.kind.pool().map_or(1, |pool| pool.concurrency);
        let connection = match channel {
            Some(channel) => Some(self.converse(worker, channel, (rules, calls))?),
            None => None,
        };
        let reachable = connection.is_some() || server.is_some();
        reachable.then(|| WarmWorker {
            connection,
            server,
            variables: false,
            streams: BTreeMap::new(),
            calls: under_way.iter().map(|(call, meta)| (*call, meta.key())).collect(),
            call_output: output.attach_pool(piped, calls <= 1, under_way.into_iter().map(|(_, meta)| meta)),
        })
    }

    fn converse(&self, worker: WorkerId, channel: OwnedFd, (rules, calls): (&Rules, u32)) -> Option<WorkerConnection> {
        let most = usize::try_from(calls).unwrap_or(usize::MAX);
        let conversation = match Conversation::new(channel, rules.result_max, most, Arc::clone(&self.buffers)) {
            Ok(conversation) => Rc::new(conversation),
            Err(error) => {
                tracing::error!("failed to watch the socket of {worker}: {error}");
                return None;
            }
        };
        let conversing = converse(self.inbox.clone(), worker, Rc::clone(&conversation));
        let task = self.inbox.spawn(TaskOwner::Worker(worker), conversing);
        Some(WorkerConnection { conversation, task })
    }

    /// Hands a call to a worker. If the worker is gone, its end is or will be reported. Returns an event if the call
    /// cannot be made.
    ///
    /// `deadline` is when the worker ends with the lease of this node.
    pub(crate) fn call(&mut self, order: &CallOrder, deadline: Option<Duration>) -> Option<Event> {
        // The spawner hears of it first. If fnd is stopped or killed between the two, nothing else would end the call in time.
        if deadline.is_some() {
            self.lease(order.worker, deadline);
        }
        let attempt = &order.attempt;
        let attached = self.attached.get_mut(&order.worker);
        let member = attached.and_then(|attached| attached.member.as_mut())?;
        let key = (attempt.invocation, attempt.attempt);
        member.calls.insert(order.call, key);
        // The output is marked before the call is sent: every later line of the worker belongs to this call.
        member.call_output.begin(AttemptOutput {
            function: order.function.clone(),
            invocation: attempt.invocation,
            attempt: attempt.attempt,
            output_max: order.rules.output_max,
            result_max: order.rules.result_max,
            cgi: false,
            mask: self.masks.of(order.worker).cloned(),
        });
        if let Some(server) = &member.server {
            let server = Rc::clone(server);
            self.ask_server(order, server);
            return None;
        }
        let connection = member.connection.as_ref()?;
        let payload = &attempt.payload;
        let head = InvokeHead {
            invocation: attempt.invocation.to_string().into(),
            attempt: attempt.attempt.0,
            poll: attempt.poll,
            trigger: attempt.seen_trigger().as_str().into(),
            deadline_ms: attempt.deadline_ms,
            traceparent: environment::span(attempt).traceparent().into(),
            content_type: payload.content_type.as_deref().map(Into::into),
            data: None,
            previous: None,
            context: payload
                .context
                .as_deref()
                .and_then(|context| JsonText::new(json::in_order(context.as_bytes())?)),
            time: Some(match payload.cause.as_deref().and_then(Cause::time) {
                Some(time) => time.into(),
                None => instant::text(attempt.invocation.unix_ms()).into(),
            }),
            cause: payload.cause.as_deref().map(Cow::Borrowed),
            variables: member.variables.then(|| environment::for_worker(payload)).flatten(),
            request: environment::request(attempt),
        };
        let previous = attempt.previous.as_ref().map(|previous| &previous.data);
        match protocol::invoke(order.call, head, payload.data.as_ref(), previous) {
            Ok(message) => {
                connection.conversation.send(message);
                None
            }
            Err(error) => {
                let answered = Answered {
                    worker: order.worker,
                    call: order.call,
                    reason: Reason::Interrupted,
                    message: format!("its body, which waited on the disk, cannot be read: {error}"),
                    result: None,
                };
                Some(Event::Answered(Box::new(answered)))
            }
        }
    }

    /// Gives a worker the variables of requests from now on, if it `wants` them.
    pub(crate) fn give_variables(&mut self, worker: WorkerId, wants: bool) {
        if let Some(member) = self.member_mut(worker) {
            member.variables = wants;
        }
    }

    /// Ends one call of a worker: tells the worker, or closes the connection of its request.
    pub(crate) fn cancel_call(&mut self, worker: WorkerId, call: u64) {
        let Some(member) = self.member(worker) else { return };
        if let Some(server) = &member.server {
            server.close_request(call);
        } else if let Some(connection) = &member.connection {
            connection.conversation.send(protocol::cancel(call));
        }
    }

    /// Asks a worker to finish and exit.
    pub(crate) fn stop(&mut self, worker: WorkerId) {
        if let Some(connection) = self.member(worker).and_then(|member| member.connection.as_ref()) {
            connection.conversation.send(protocol::stop());
        }
    }

    /// Adds a line of a call, or of the worker itself, to the output.
    pub(crate) fn log(&self, worker: WorkerId, call: u64, record: &LogRecord) {
        if let Some(member) = self.member(worker) {
            member.call_output.log(member.calls.get(&call).copied(), record);
        }
    }

    /// Passes bytes of a stream on to the caller of their run, which `find` returns.
    pub(crate) fn pass_part(
        &mut self,
        (worker, call): (WorkerId, u64),
        (head, data): (Option<ResultHead>, &[u8]),
        find: impl FnOnce(InvocationId) -> Option<Rc<LiveAnswer>>,
    ) {
        let Some(member) = self.member_mut(worker) else { return };
        let Some((invocation, attempt)) = member.calls.get(&call).copied() else {
            return;
        };
        let begin = || LiveWriter::new(find(invocation)?, attempt, head?.into());
        if let Some(writer) = member.streams.entry(call).or_insert_with(begin) {
            writer.push(data);
        }
    }

    /// Says that a result is there with all its bytes.
    pub(crate) fn complete_stream(&mut self, worker: WorkerId, call: u64) {
        let member = self.member_mut(worker);
        if let Some(Some(writer)) = member.and_then(|member| member.streams.remove(&call)) {
            writer.complete();
        }
    }

    /// Adds the stack of an error to the output of its call.
    pub(crate) fn keep_stack(&self, worker: WorkerId, call: u64, failure: &ProtocolFailure) {
        let Some(stack) = &failure.stack else { return };
        let record = LogRecord {
            time_ms: self.clock.now().unix_ms,
            level: Level::Error,
            message: stack.trim_end().to_owned(),
            fields: serde_json::Map::new(),
        };
        self.log(worker, call, &record);
    }

    pub(crate) fn member(&self, worker: WorkerId) -> Option<&WarmWorker> {
        self.attached.get(&worker)?.member.as_ref()
    }

    fn member_mut(&mut self, worker: WorkerId) -> Option<&mut WarmWorker> {
        self.attached.get_mut(&worker)?.member.as_mut()
    }

    /// Returns the conversation with a worker.
    pub(crate) fn conversation(&self, worker: WorkerId) -> Option<Rc<Conversation>> {
        self.member(worker)?.conversation()
    }

    /// Ends the output of a call that is over. Returns the call if its output will be reported later.
    pub(crate) fn end_call(&mut self, worker: WorkerId, call: u64) -> Option<AttemptKey> {
        let output_read = Arc::clone(&self.output_read);
        let member = self.member_mut(worker)?;
        // A stream that is not complete breaks off.
        member.streams.remove(&call);
        let key = member.calls.remove(&call)?;
        end_output(output_read, member, key).then_some(key)
    }

    /// Removes a worker that is gone, with its temporary files. Returns the descriptor of its result, and the calls whose
    /// output will be reported later: if there are several, each has output of its own; that of a single call ends with
    /// the worker's.
    pub(crate) fn detach(&mut self, worker: WorkerId) -> (Option<OwnedFd>, Vec<AttemptKey>) {
        let Some(attached) = self.attached.remove(&worker) else {
            return (None, Vec::new());
        };
        self.release_tmp(attached.tmp);
        let member = attached.member.iter().filter(|member| member.calls.len() > 1);
        let calls = member.flat_map(|member| member.calls.values().map(move |key| (member, *key)));
        let printed = calls.filter(|(member, key)| end_output(Arc::clone(&self.output_read), member, *key));
        (attached.result, printed.map(|(_, key)| key).collect())
    }
}

/// Ends the output of a call; returns whether its output will be reported later.
fn end_output(output_read: Arc<OutputRead>, member: &WarmWorker, key: AttemptKey) -> bool {
    let done = move |captured| output_read(key, Box::new(captured));
    member.call_output.end(key, done) == CallOutputEnd::Printed
}

/// Runs the conversation with one worker until it is over.
async fn converse(inbox: Inbox, worker: WorkerId, conversation: Rc<Conversation>) {
    let end = conversation
        .run(|message| {
            let reserved = match &message {
                WorkerMessage::Result { call, head, data } => {
                    let size = data.as_ref().map_or(0, |data| data.len() as u64);
                    conversation.room(*call, head.stream.then_some(size))
                }
                WorkerMessage::Ready(_)
                | WorkerMessage::Part { .. }
                | WorkerMessage::Error { .. }
                | WorkerMessage::Log { .. } => None,
            };
            inbox.input(Input::WorkerMessage(worker, message, reserved));
        })
        .await;
    let broken = |message| Event::Broken { worker, message };
    let event = match end {
        ConversationEnd::Closed => Event::Closed(worker),
        ConversationEnd::Failed(error) => broken(format!("its socket cannot be read: {error}")),
        ConversationEnd::Protocol(error) => {
            let message = error.to_string();
            // The call with the large result ends first, with its own reason. `Broken` ends the other calls of the
            // worker.
            if let ProtocolError::TooLarge { call, .. } = error {
                let how = (Reason::ResultTooLarge, message.clone());
                inbox.input(Input::Answered(worker, call, how, None));
            }
            broken(message)
        }
        ConversationEnd::Stopped | ConversationEnd::HungUp => return,
    };
    inbox.input(Input::Event(event));
}
