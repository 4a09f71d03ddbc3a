//! Functions: their states are in the supervisor.

use super::lists::in_pieces;
use super::{Answering, Backend, Failure, NotStored, failure};
use crate::ledger::{DisabledBy, LedgerCommand};
use crate::views::lists::PIECE;
use crate::workers::usage::counters::Groups;
use fnd_core::api::{
    FunctionDetail, InvocationView, RouteList, RouteTest, RouteTestReport, ScheduleList, ShellTarget, UsageList,
    milliseconds,
};
use fnd_core::instant;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::{Answer, Calling, Event, Rejection};
use fnd_core::trace::Trace;
use fnd_manifest::function::{Manifest, Mode};
use fnd_wire::ids::FunctionName;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The limits for requests to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageBounds {
    /// `limits.body`: most bytes of a payload.
    pub(crate) body: u64,
    /// `limits.timeout`: a caller may only shorten it.
    pub(crate) timeout: Option<Duration>,
    /// The mode of the function.
    pub(crate) mode: Mode,
    /// Whether bodies can be passed on as a stream: only to a program that serves HTTP, and only without retries.
    pub(crate) passes: bool,
}

/// How long a caller waits for a file that was just saved.
const SAVED: Duration = Duration::from_secs(1);

impl Backend {
    /// Returns what every function uses now, sorted by name. This reads several files of each function.
    pub(crate) async fn usage(&self) -> Result<UsageList, Failure> {
        let memory = self.daemon.state.borrow().workers.welcome.memory.clone();
        let at = instant::text(self.now_ms());
        let every = (Vec::new(), usize::MAX);
        let functions = in_pieces(&self.daemon, None, every, |parts, view| parts.usage_of(view)).await;
        let mut list = UsageList { at, functions };
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
    }

    /// Returns one function with all details; nothing if there is no function of that name.
    pub(crate) fn function(&self, name: &FunctionName) -> Option<FunctionDetail> {
        let state = self.daemon.state.borrow();
        state.look().function_detail(&state.supervisor.function(name)?)
    }

    /// Returns the limits for requests to a function; nothing if it has no version that can run.
    pub(crate) fn bounds(&self, name: &FunctionName) -> Option<PageBounds> {
        let state = self.daemon.state.borrow();
        let manifest = &state.serving(name)?.manifest;
        let limits = &manifest.limits;
        Some(PageBounds {
            body: limits.body,
            timeout: limits.timeout,
            mode: manifest.mode,
            // A body that was passed on is gone, so a retry would have nothing to send.
            passes: manifest.mode == Mode::Http && manifest.retry.retries == 0,
        })
    }

    /// Waits until a function serves its files as they are on the disk, or they are refused. Returns whether that came in time.
    pub(crate) async fn saved(&self, name: &FunctionName) -> bool {
        let (number, serves) = {
            let functions = &mut self.daemon.state.borrow_mut().functions;
            let (number, serves) = functions.saved.wait(name.clone());
            // The catalog reports the file behind all file events that came before this question, so it does not miss a
            // save of a moment ago.
            functions.catalog.reported(number, name.clone());
            (number, serves)
        };
        let is_over = tokio::time::timeout(SAVED, serves).await.is_ok();
        is_over || !self.daemon.state.borrow_mut().functions.saved.give_up(number)
    }

    /// Returns the user and the manifest of a function that serves, for its own socket.
    pub(crate) fn access(&self, name: &FunctionName) -> Option<(u32, Arc<Manifest>)> {
        let state = self.daemon.state.borrow();
        let serving = state.serving(name)?;
        Some((serving.uid, Arc::clone(&serving.manifest)))
    }

    /// Returns how many calls in a chain a request of a function is.
    ///
    /// # Errors
    /// The chain is too long, or the invocation that the request names does not run.
    pub(crate) fn call_depth(&self, calling: &Calling, trace: Option<&Trace>) -> Result<u8, Rejection> {
        let state = self.daemon.state.borrow();
        Ok(state.supervisor.call_depth(calling, trace)?.0)
    }

    /// Returns the routes of the public listener.
    pub(crate) fn route_list(&self) -> RouteList {
        let routes = self.routes();
        let listener = Rc::clone(&self.daemon.state.borrow().listener);
        listener.list(&routes)
    }

    /// Returns what would become of a request to the public listener; nothing runs. An error is the words for a request
    /// that cannot be.
    pub(crate) async fn try_request(&self, test: RouteTest) -> Result<RouteTestReport, String> {
        let (routes, now_s) = (self.routes(), self.now_ms() / 1000);
        let listener = Rc::clone(&self.daemon.state.borrow().listener);
        listener.try_request(&routes, &test, now_s).await
    }

    /// Returns the schedules of all functions or of one, each with `next` of its next slots.
    pub(crate) async fn schedules(&self, function: Option<FunctionName>, next: usize) -> Result<ScheduleList, Failure> {
        // Records that were put off go to the ledger first, so that its reader finds them.
        drop(self.settled());
        let mut schedules = self.schedule_list(function.as_ref(), next).await;
        let mut functions: Vec<_> = schedules.iter().map(|view| view.function.clone()).collect();
        functions.dedup();
        let last = self
            .reader
            .last_of(functions, Trigger::Schedule)
            .await
            .map_err(failure)?;
        for piece in schedules.chunks_mut(PIECE) {
            {
                let state = self.daemon.state.borrow();
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
    }

    /// Pauses the schedules of a function, or lets them go on, once that is stored. Returns whether it has any; nothing if
    /// there is no function of that name.
    pub(crate) async fn pause_schedules(&self, name: &FunctionName, paused: bool) -> Result<Option<bool>, NotStored> {
        let (control, function) = (self.clone(), name.clone());
        let paused = self.to_the_end(async move { Some(control.pause(function, paused).await) });
        let stopping = |_| Err(NotStored("fnd is stopping".into()));
        paused.await.unwrap_or_else(stopping)
    }

    /// Installs a function again, with its dependencies; `clean`: these are built anew. Resolves when it is installed, or with the reason why it cannot be;
    /// nothing if there is no function of that name.
    pub(crate) fn build(
        &self,
        name: &FunctionName,
        clean: bool,
    ) -> Option<impl Future<Output = Result<(), String>> + use<>> {
        let wait = self.settled().build_again(name, clean)?;
        Some(async move {
            let installed = wait.await.unwrap_or_else(|_| Err("fnd is stopping".to_owned()));
            installed.map(drop)
        })
    }

    /// Enables or disables a function for a user, once that is stored: `Answer::Done`, `Answer::NotFound` or
    /// `Answer::StoreFailed`.
    pub(crate) fn set_enabled(&self, name: &FunctionName, enabled: bool, uid: u32) -> Answering {
        let (control, function) = (self.clone(), name.clone());
        let set = self.to_the_end(async move {
            let is_known = control.settled().supervisor.function(&function).is_some();
            if is_known {
                let disabled = (!enabled).then(|| control.disabled_by(&function, uid));
                // The ledger comes first: in the other order a kill in between would undo a change that is in force.
                let stored = control.store_change(vec![LedgerCommand::StoreEnabled {
                    function: function.clone(),
                    disabled,
                }]);
                if stored.await.is_err() {
                    return Some(Answer::StoreFailed);
                }
                let users = &mut control.daemon.state.borrow_mut().functions.disabled;
                match disabled {
                    Some(by) => users.insert(function.clone(), by),
                    None => users.remove(&function),
                };
            }
            let set = |reply| Event::SetEnabled {
                function,
                enabled,
                reply,
            };
            control.ask_for_all(set).await.ok()
        });
        set.into()
    }

    /// Replaces the processes of a service, or the workers of a handler or an HTTP program; nothing if there is no function of
    /// that name.
    ///
    /// # Errors
    /// There is nothing to replace; says why.
    pub(crate) fn restart(&self, name: &FunctionName) -> Option<Result<(), String>> {
        let refusal = {
            let state = self.settled();
            let is_enabled = state.supervisor.function(name)?.enabled;
            if let Some(full) = state.supervisor.full(name) {
                // fnd starts nothing of a function that is over its quota.
                return Some(Err(format!("`{name}` would not start again: {full}")));
            }
            match state.serving(name).map(|serving| serving.manifest.mode) {
                None => Some("it has no version that can run"),
                Some(Mode::Script) => Some("each run of a script is a new process"),
                Some(Mode::Service) if !is_enabled => Some("it is stopped, and `fndctl start` starts it"),
                Some(Mode::Handler | Mode::Http) if !is_enabled => Some("it is disabled"),
                Some(Mode::Service | Mode::Handler | Mode::Http) => None,
            }
        };
        if let Some(why) = refusal {
            return Some(Err(format!("nothing of `{name}` can be restarted: {why}")));
        }
        self.daemon.step(Event::Restart(name.clone()));
        Some(Ok(()))
    }

    /// Returns where a shell finds the processes of a function; nothing if there is no function of that name.
    ///
    /// # Errors
    /// Nothing of it runs; says why, and what starts it.
    pub(crate) fn shell_target(&self, name: &FunctionName) -> Option<Result<ShellTarget, String>> {
        let state = self.settled();
        let is_enabled = state.supervisor.function(name)?.enabled;
        let runs = state
            .supervisor
            .workers_after(None)
            .any(|(_, function, _)| function == name);
        if runs {
            let group = Groups::find(&state.workers.welcome.memory).unified(&name.file_form());
            let cgroup = group.map(|group| group.display().to_string());
            return Some(Ok(ShellTarget { cgroup }));
        }
        let why = match state.serving(name).map(|serving| serving.manifest.mode) {
            None => format!("it has no version that can run, and `fndctl show {name}` says why"),
            Some(Mode::Service) if !is_enabled => format!("it is stopped, and `fndctl start {name}` starts it"),
            Some(_) if !is_enabled => format!("it is disabled, and `fndctl enable {name}` enables it"),
            Some(Mode::Service) => format!("`fndctl status {name}` says why the service does not run now"),
            Some(Mode::Handler | Mode::Http) => {
                format!("`fndctl invoke {name}` starts a worker, which stays for a while")
            }
            Some(Mode::Script) => {
                format!("its process lasts as long as a run, so begin a long one: `fndctl invoke {name} --async`")
            }
        };
        Some(Err(format!(
            "nothing of `{name}` runs now whose sandbox a shell could enter: {why}"
        )))
    }

    /// Resolves when the function's status file contains all that has happened to the function so far.
    pub(crate) async fn status_written(&self, name: &FunctionName) {
        let written = self.settled().reporter.status_files.written(name);
        if let Some(written) = written {
            let _ = written.await; // an error: the function is gone, or fnd ends
        }
    }

    /// Returns the user who has disabled a function. The first one counts: the function is disabled since then.
    fn disabled_by(&self, function: &FunctionName, uid: u32) -> DisabledBy {
        let state = self.daemon.state.borrow();
        let by = state.functions.disabled.get(function).copied();
        let since_ms = state.clock.now().unix_ms;
        by.unwrap_or(DisabledBy { uid, since_ms })
    }

    async fn pause(self, function: FunctionName, paused: bool) -> Result<Option<bool>, NotStored> {
        let has_any = {
            let state = self.settled();
            if state.supervisor.function(&function).is_none() {
                return Ok(None);
            }
            let serving = state.serving(&function);
            serving.is_some_and(|serving| !serving.manifest.schedule.is_empty())
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
