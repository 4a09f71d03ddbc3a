//! Functions: their states are in the supervisor.

use super::FunctionBackend;
use super::{
    Answering, DaemonBackend, Failure, FunctionChanges, FunctionFilter, NotStored, Pending, ReleaseChange, failure,
};
use crate::input::TaskOwner;
use crate::ledger::LedgerCommand;
use crate::views::lists::PIECE;
use crate::workers::usage::counters::Groups;
use fnd_core::api::{
    FunctionDetail, FunctionStatus, InvocationView, ReleaseChanged, ReleaseFiles, ReleaseList, RouteList, RouteTest,
    RouteTestReport, ScheduleList, UsageList, milliseconds,
};
use fnd_core::lifecycle::release::NotHeld;
use fnd_core::records::outcome::Trigger;
use fnd_core::supervisor::{Answer, Calling, Event, Rejection};
use fnd_core::trace::Trace;

use fnd_manifest::function::{Manifest, Mode};
use fnd_wire::ids::FunctionName;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The limits for requests to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageBounds {
    /// `limits.body`: most bytes of a payload.
    pub body: u64,
    /// `limits.timeout`: a caller may only shorten it.
    pub timeout: Option<Duration>,
    /// The mode of the function.
    pub mode: Mode,
    /// Whether bodies can be passed on as a stream: only to a program that serves HTTP, and only without retries.
    pub passes: bool,
}

/// How long a caller waits for a file that was just saved.
const SAVED: Duration = Duration::from_secs(1);

impl FunctionBackend for DaemonBackend {
    fn functions(&self, filter: FunctionFilter) -> Pending<Vec<FunctionStatus>> {
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move { daemon.function_list(&filter).await })
    }

    fn usage(&self) -> Pending<Result<UsageList, Failure>> {
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move {
            let memory = daemon.state.borrow().workers.welcome.memory.clone();
            let mut list = daemon.usage().await;
            // Files of the kernel are read at once, but thousands of functions have many of them.
            let read = tokio::task::spawn_blocking(move || {
                let groups = Groups::find(&memory);
                for function in &mut list.functions {
                    let counters = groups.read(&function.function.file_form());
                    function.cpu_ms = counters.cpu_us.map(milliseconds);
                    function.cpu_periods = counters.periods;
                    function.throttled_periods = counters.throttled_periods;
                    function.throttled_ms = counters.throttled_us.map(milliseconds);
                    function.memory_bytes = counters.memory;
                    function.pids = counters.pids;
                }
                list
            });
            read.await.map_err(failure)
        })
    }

    fn function(&self, name: &FunctionName) -> Option<FunctionDetail> {
        let state = self.daemon.state.borrow();
        state.look().function_detail(name, state.file_work(name))
    }

    fn unknown(&self, name: &FunctionName) -> Rejection {
        self.daemon.state.borrow().supervisor.unknown(name)
    }

    fn bounds(&self, name: &FunctionName) -> Option<PageBounds> {
        let state = self.daemon.state.borrow();
        let manifest = &state.serving(name)?.manifest;
        let limits = &manifest.limits;
        Some(PageBounds {
            body: limits.body,
            timeout: limits.timeout,
            mode: manifest.mode,
            passes: manifest.mode == Mode::Http && manifest.retry.retries == 0,
        })
    }

    fn saved(&self, name: &FunctionName) -> Pending<bool> {
        let daemon = Rc::clone(&self.daemon);
        let functions = &mut daemon.state.borrow_mut().functions;
        let (number, serves) = functions.saved.wait(name.clone());
        functions.catalog.reported(number, name.clone());
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move {
            let is_over = tokio::time::timeout(SAVED, serves).await.is_ok();
            is_over || !daemon.state.borrow_mut().functions.saved.give_up(number)
        })
    }

    fn access(&self, name: &FunctionName) -> Option<(u32, Arc<Manifest>)> {
        let state = self.daemon.state.borrow();
        let serving = state.serving(name)?;
        Some((serving.uid, Arc::clone(&serving.manifest)))
    }

    fn call_depth(&self, calling: &Calling, trace: Option<&Trace>) -> Result<u8, Rejection> {
        let state = self.daemon.state.borrow();
        Ok(state.supervisor.call_depth(calling, trace)?.0)
    }

    fn route_list(&self) -> RouteList {
        let routes = self.routes();
        let listener = Rc::clone(&self.daemon.state.borrow().listener);
        listener.list(&routes)
    }

    fn try_request(&self, test: RouteTest) -> Pending<Result<RouteTestReport, String>> {
        let (routes, now_s) = (self.routes(), self.now_ms() / 1000);
        let listener = Rc::clone(&self.daemon.state.borrow().listener);
        Box::pin(async move { listener.try_request(&routes, &test, now_s).await })
    }

    fn schedules(&self, function: Option<FunctionName>, next: usize) -> Pending<Result<ScheduleList, Failure>> {
        drop(self.settled());
        let (reader, daemon) = (self.reader.clone(), Rc::clone(&self.daemon));
        Box::pin(async move {
            let mut schedules = daemon.schedule_list(function.as_ref(), next).await;
            let mut functions: Vec<_> = schedules.iter().map(|view| view.function.clone()).collect();
            functions.dedup();
            let last = reader.last_of(functions, Trigger::Schedule).await.map_err(failure)?;
            for piece in schedules.chunks_mut(PIECE) {
                {
                    let state = daemon.state.borrow();
                    for view in &mut *piece {
                        let Some((record, cause)) = last.get(&view.function) else {
                            continue;
                        };
                        // The record in memory is newer than the one on disk.
                        let live = state.supervisor.invocation(record.id);
                        let mut last = InvocationView::of(live.as_ref().unwrap_or(record));
                        last.cause = cause.as_deref().cloned();
                        view.last = Some(last);
                    }
                }
                if piece.len() == PIECE {
                    tokio::task::yield_now().await;
                }
            }
            Ok(ScheduleList { schedules })
        })
    }

    fn pause_schedules(&self, name: &FunctionName, paused: bool) -> Pending<Result<Option<bool>, NotStored>> {
        let (control, function) = (self.clone(), name.clone());
        let (sender, receiver) = oneshot::channel();
        // A task of its own, as in `answer_change`.
        self.daemon.inbox.spawn(TaskOwner::Caller, async move {
            let _ = sender.send(control.pause(function, paused).await); // an error: the caller has left
        });
        Box::pin(async move {
            let stopping = |_| Err(NotStored("fnd is stopping".into()));
            receiver.await.unwrap_or_else(stopping)
        })
    }

    fn releases(&self, name: &FunctionName) -> Result<ReleaseList, NotHeld> {
        self.list_releases(name)
    }

    fn build(&self, name: &FunctionName, clean: bool) -> Option<Pending<Result<(), String>>> {
        let wait = self.settled().build_again(name, clean)?;
        Some(Box::pin(async move {
            let installed = wait.await.unwrap_or_else(|_| Err("fnd is stopping".to_owned()));
            installed.map(drop)
        }))
    }

    fn change_release(&self, name: &FunctionName, change: ReleaseChange) -> Pending<Result<ReleaseChanged, NotHeld>> {
        self.changed_release(name, change)
    }

    fn release_files(&self, name: &FunctionName, release: &str) -> Pending<Result<ReleaseFiles, NotHeld>> {
        self.read_release(name, release)
    }

    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering {
        let (control, function) = (self.clone(), name.clone());
        self.answer_change(async move {
            if control.settled().supervisor.function(&function).is_some() {
                let stored = control.store_change(vec![LedgerCommand::StoreEnabled {
                    function: function.clone(),
                    enabled,
                }]);
                if stored.await.is_err() {
                    return Some(Answer::StoreFailed);
                }
            }
            let set = |reply| Event::SetEnabled {
                function,
                enabled,
                reply,
            };
            control.ask_for_all(set).await.ok()
        })
    }

    fn status_written(&self, name: &FunctionName) -> Pending<()> {
        let written = self.settled().reporter.status_files.written(name);
        Box::pin(async move {
            if let Some(written) = written {
                let _ = written.await; // an error: the function is gone, or fnd ends
            }
        })
    }

    fn watch(&self, filter: FunctionFilter) -> FunctionChanges {
        crate::backend::watch_functions::watch(&self.daemon, filter)
    }
}

impl DaemonBackend {
    async fn pause(self, function: FunctionName, paused: bool) -> Result<Option<bool>, NotStored> {
        let has_any = {
            let state = self.settled();
            if state.supervisor.function(&function).is_none() {
                return Ok(None);
            }
            state.has_schedules(&function)
        };
        if has_any {
            let name = function.clone();
            self.store_change(vec![LedgerCommand::StorePaused { function: name, paused }])
                .await?;
            self.settled().pause_schedules(&function, paused);
        }
        Ok(Some(has_any))
    }
}
