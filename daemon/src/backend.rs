//! The daemon as the control server sees it: [`Backend`] over the supervisor, the ledger and the kept output.

use crate::buffers::Buffers;
use crate::control::backend::{
    Answering, Backend, Bounds, Changes, Failure, FunctionFilter, InvocationFilter, Leaving, LogLines, LogQuery,
    PassedOn, Pending, Pieces, Repeated, SubmitRequest,
};
use crate::driver::{Daemon, State};
use crate::http::connections::Connections;
use crate::ledger;
use crate::metrics::{self, Form};
use crate::requests::Upload;
use crate::stream::{self, StreamQuery};
use fnd_core::api::{
    AttemptView, DeadLetter, DeadLetterList, FunctionDetail, FunctionStatus, InvocationList, InvocationView,
    NodeStatus, ReloadReport, SizeView, ValidateReport, ValidateRequest,
};
use fnd_core::check;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::happening::StreamEvent;
use fnd_core::manifest::Mode;
use fnd_core::outcome::Trigger;
use fnd_core::record::RunResult;
use fnd_core::runtime::RuntimeSummary;
use fnd_core::supervisor::{Answer, Event, Rejection, ReplyTo, Submit};
use fnd_files::Disk;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::units;
use hyper::body::Incoming;
use std::cell::RefMut;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Most lines between a reader of kept output and its caller.
const LINES_MAX: usize = 256;

/// The backend: the daemon, and the parts that read for it.
#[derive(Clone)]
pub struct Control {
    /// The daemon.
    pub daemon: Rc<Daemon>,
    /// The history.
    pub reader: ledger::Reader,
    /// The directory of kept output.
    pub logs: PathBuf,
    /// The configuration file and the directories of runtimes.
    pub places: Arc<(String, Vec<String>)>,
    /// Idempotency keys that are being looked up.
    pub keys: crate::idempotency::Keys,
}

impl Control {
    /// Returns the state with nothing put off: the ledger has every record of what is over.
    pub(crate) fn settled(&self) -> RefMut<'_, State> {
        let mut state = self.daemon.state.borrow_mut();
        state.catch_up();
        state
    }

    /// Makes a place for an answer, and hands the supervisor an event that leads to it.
    pub(crate) fn ask(&self, event: impl FnOnce(ReplyTo) -> Event) -> Answering {
        self.ask_as(event).0.into()
    }

    /// Like [`Self::ask`]; also returns the number of the answer.
    pub(crate) fn ask_as(&self, event: impl FnOnce(ReplyTo) -> Event) -> (oneshot::Receiver<Answer>, ReplyTo) {
        let (sender, receiver) = oneshot::channel();
        let reply = {
            let mut state = self.daemon.state.borrow_mut();
            state.last_reply += 1;
            let reply = ReplyTo(state.last_reply);
            state.replies.insert(reply, sender);
            reply
        };
        self.daemon.answer_first(event(reply));
        (receiver, reply)
    }

    fn submit_as(&self, id: InvocationId, request: SubmitRequest) -> Answering {
        self.once(Submit {
            id,
            function: request.function,
            trigger: Trigger::Manual,
            payload: request.payload,
            wait: request.wait,
            timeout: request.timeout,
            not_before_ms: request.not_before_ms,
            expires_ms: request.expires_ms,
            priority: request.priority,
            idempotency_key: request.idempotency_key,
            origin: None,
            reply: None,
        })
    }
}

/// A caller whose body is passed on. If it leaves before its call begins, there is nobody to send the body.
struct Caller(Rc<Daemon>, InvocationId);

impl Drop for Caller {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if state.supervisor.invocation(self.1).is_none() {
            // The invocation was refused, or is over.
            state.uploads.remove(&self.1);
        } else if let Some(upload) = state.uploads.get_mut(&self.1) {
            *upload = None;
        }
    }
}

pub(crate) fn failure(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

impl Leaving for Daemon {
    fn left(&self, id: InvocationId, reply: ReplyTo) {
        {
            let mut state = self.state.borrow_mut();
            state.replies.remove(&reply);
            // fnd is at its end, or another caller waits for the invocation's end.
            if state.connection.is_none() || state.ends.has(id) {
                return;
            }
        }
        self.step(Event::CallerLeft { id, reply });
    }
}

impl Backend for Control {
    fn buffers(&self) -> Arc<Buffers> {
        Arc::clone(&self.daemon.state.borrow().buffers)
    }

    fn connections(&self) -> Rc<Connections> {
        Rc::clone(&self.daemon.state.borrow().connections)
    }

    fn health(&self) -> Result<(), String> {
        let state = self.daemon.state.borrow();
        match &state.connection {
            Some(_) => state
                .start_problems()
                .next()
                .map_or(Ok(()), |problem| Err(problem.text)),
            None => Err("no connection to fnd-spawner".into()),
        }
    }

    fn node_status(&self) -> NodeStatus {
        self.daemon.state.borrow().node()
    }

    fn functions(&self) -> Vec<FunctionStatus> {
        self.daemon.state.borrow().function_list()
    }

    fn unknown(&self, name: &FunctionName) -> Rejection {
        self.daemon.state.borrow().supervisor.unknown(name)
    }

    fn function(&self, name: &FunctionName) -> Option<FunctionDetail> {
        self.daemon.state.borrow().function_detail(name)
    }

    fn bounds(&self, name: &FunctionName) -> Option<Bounds> {
        let state = self.daemon.state.borrow();
        let manifest = &state.serving(name)?.manifest;
        let limits = &manifest.limits;
        Some(Bounds {
            body: limits.body,
            timeout: limits.timeout,
            mode: manifest.mode,
            passes: manifest.mode == Mode::Http && manifest.retry.retries == 0,
        })
    }

    fn submit(&self, request: SubmitRequest) -> Answering {
        let id = self.next_id();
        self.submit_as(id, request)
    }

    fn pass(&self, request: SubmitRequest, body: Incoming) -> PassedOn {
        let id = self.next_id();
        let limit = self.bounds(&request.function).map_or(0, |bounds| bounds.body);
        let (sender, head) = oneshot::channel();
        let upload = Upload {
            body,
            limit,
            answer: sender,
        };
        self.daemon.state.borrow_mut().uploads.insert(id, Some(upload));
        let caller = Box::new(Caller(Rc::clone(&self.daemon), id));
        let answer = self.submit_as(id, request);
        PassedOn { head, answer, caller }
    }

    fn cancel(&self, id: InvocationId) -> Answering {
        self.ask(|reply| Event::Cancel { id, reply })
    }

    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering {
        self.ask(|reply| Event::SetEnabled {
            function: name.clone(),
            enabled,
            reply,
        })
    }

    fn invocation(&self, id: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>> {
        let reader = self.reader.clone();
        // The record in memory is newer than the one on disk.
        let live = self.settled().supervisor.invocation(id);
        Box::pin(async move {
            let stored = reader.get(id).await.map_err(failure)?;
            let (record, attempts, replay_of) = match (live, stored) {
                (Some(live), Some(stored)) => (live, stored.attempts, stored.origin),
                (Some(live), None) => (live, Vec::new(), None),
                (None, Some(stored)) => (stored.record, stored.attempts, stored.origin),
                (None, None) => return Ok(None),
            };
            let mut view = InvocationView::of(&record);
            view.replay_of = replay_of;
            view.attempt_records = attempts.iter().map(AttemptView::of).collect();
            Ok(Some(view))
        })
    }

    fn ended(&self, id: InvocationId) -> Option<Pending<()>> {
        let state = self.settled();
        state.supervisor.invocation(id)?;
        Some(Box::pin(state.ends.wait(id)))
    }

    fn status_written(&self, name: &FunctionName) -> Pending<()> {
        let written = self.settled().status.written(name);
        Box::pin(async move {
            if let Some(written) = written {
                let _ = written.await; // an error: the function is gone, or fnd ends
            }
        })
    }

    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>> {
        let reader = self.reader.clone();
        drop(self.settled());
        Box::pin(async move {
            let filter = filter_of(filter, false);
            let page = reader.list(filter).await.map_err(failure)?;
            Ok(InvocationList {
                invocations: page.records.iter().map(InvocationView::of).collect(),
                next: page.next.map(|id| id.to_string()),
            })
        })
    }

    fn repeat(&self, id: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>> {
        Box::pin(self.clone().repeat_one(id, trigger))
    }

    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>> {
        let reader = self.reader.clone();
        Box::pin(async move {
            let found = reader.dead_letters(filter_of(filter, true)).await.map_err(failure)?;
            Ok(DeadLetterList {
                dead_letters: found.letters,
                next: found.next.map(|id| id.to_string()),
            })
        })
    }

    fn dead_letter(&self, id: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>> {
        let reader = self.reader.clone();
        Box::pin(async move { reader.dead_letter(id).await.map_err(failure) })
    }

    fn drop_dead_letter(&self, id: InvocationId) -> Pending<Result<bool, Failure>> {
        Box::pin(self.clone().discard_dead_letter(id))
    }

    fn backup(&self) -> Pending<Result<(u64, Pieces), Failure>> {
        let state = self.logs.with_file_name("state");
        Box::pin(crate::backup::take(state))
    }

    fn result(&self, id: InvocationId) -> Pending<Result<Option<RunResult>, Failure>> {
        let reader = self.reader.clone();
        drop(self.settled());
        Box::pin(async move {
            match reader.result(id).await.map_err(failure)? {
                ledger::ResultOf::Ended(result) => Ok(result),
                ledger::ResultOf::Unknown | ledger::ResultOf::Unfinished(_) => Ok(None),
            }
        })
    }

    fn logs(&self, mut query: LogQuery) -> Pending<Result<LogLines, Failure>> {
        let output = self.daemon.state.borrow().output.clone();
        let root = self.logs.clone();
        let functions = match &query.function {
            Some(function) => vec![function.clone()],
            None => self
                .daemon
                .state
                .borrow()
                .functions
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
        };
        let end = query.invocation.and_then(|id| self.ended(id));
        // An invocation that has ended prints nothing more: following it would never end.
        query.follow &= query.invocation.is_none() || end.is_some();
        Box::pin(crate::follow::lines(
            crate::follow::Source {
                output,
                root,
                functions,
                end,
            },
            query,
            LINES_MAX,
        ))
    }

    fn stream(&self, query: StreamQuery) -> tokio::sync::mpsc::Receiver<StreamEvent> {
        let state = self.daemon.state.borrow();
        stream::subscribe(&state.observer.ring, query, state.clock.now().unix_ms)
    }

    fn metrics(&self, form: Form) -> Pending<String> {
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move { metrics::scrape(&daemon, form).await })
    }

    fn watch(&self, filter: FunctionFilter) -> Changes {
        crate::watch_functions::watch(&self.daemon, filter)
    }

    fn reload(&self, accept_empty: bool) -> Pending<Result<ReloadReport, Failure>> {
        let before = versions(&self.daemon.state.borrow().functions);
        let settled = self.daemon.reload(accept_empty);
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move {
            settled.await.map_err(|_| Failure("fnd is stopping".into()))?;
            let state = daemon.state.borrow();
            let after = versions(&state.functions);
            let mut diagnostics = state.settings.diagnostics.clone();
            diagnostics.extend_from_slice(state.unread.diagnostics());
            diagnostics.extend(
                state
                    .functions
                    .iter()
                    .flat_map(|(_, function)| function.diagnostics.clone()),
            );
            Ok(ReloadReport {
                applied: after
                    .iter()
                    .filter(|new| !before.contains(new))
                    .map(|(name, _)| name.clone())
                    .collect(),
                removed: before
                    .iter()
                    .filter(|(name, _)| state.functions.get(name).is_none())
                    .map(|(name, _)| name.clone())
                    .collect(),
                diagnostics,
            })
        })
    }

    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>> {
        let places = Arc::clone(&self.places);
        Box::pin(async move {
            // This reads configuration and runtimes, so it must not run on the thread that answers all callers.
            let judged = tokio::task::spawn_blocking(move || {
                let (config, runtimes) = &*places;
                let (judge, mut diagnostics) = check::judge(&Disk, config, runtimes);
                if let Some(judge) = judge {
                    let checked = check::text(&judge, &request.name, request.content.as_bytes());
                    diagnostics.extend(checked.all().cloned());
                }
                diagnostics
            });
            let diagnostics = judged.await.map_err(failure)?;
            let valid = !diagnostics.iter().any(Diagnostic::is_error);
            Ok(ValidateReport { valid, diagnostics })
        })
    }

    fn drain(&self) -> oneshot::Receiver<()> {
        self.daemon.drain()
    }

    fn runtimes(&self) -> Vec<RuntimeSummary> {
        self.daemon.state.borrow().settings.runtimes.clone()
    }

    fn sizes(&self) -> Vec<SizeView> {
        let state = self.daemon.state.borrow();
        let sizes = state.settings.settings.sizes.iter();
        let mut views: Vec<SizeView> = sizes
            .map(|(name, limits)| SizeView {
                name: name.clone(),
                limits: limits.clone(),
            })
            .collect();
        // Smallest first: by memory, then by CPU; a limit that a size does not set counts as nothing.
        views.sort_by_key(|view| {
            let memory = view.limits.get("memory").and_then(|text| units::parse_size(text).ok());
            let cpu = view.limits.get("cpu").and_then(|text| units::parse_cpu(text).ok());
            (memory, cpu)
        });
        views
    }

    fn config(&self) -> serde_json::Value {
        serde_json::to_value(&self.daemon.state.borrow().settings.settings).unwrap_or_default()
    }
}

fn filter_of(filter: InvocationFilter, dead: bool) -> ledger::Filter {
    ledger::Filter {
        function: filter.function,
        state: filter.state,
        reason: filter.reason,
        trigger: filter.trigger,
        version: filter.version,
        text: filter.text,
        dead,
        since_ms: filter.since_ms,
        until_ms: filter.until_ms,
        limit: Some(filter.limit),
        after: filter.after,
    }
}

type Versions = Vec<(FunctionName, Option<fnd_wire::ids::Version>)>;

fn versions(functions: &crate::functions::Functions) -> Versions {
    let version = |function: &crate::functions::Function| function.newest.as_ref().map(|newest| newest.version);
    functions
        .iter()
        .map(|(name, function)| (name.clone(), version(function)))
        .collect()
}
