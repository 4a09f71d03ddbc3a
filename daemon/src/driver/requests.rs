//! Handles requests and signals about the whole node: scan, reload, drain, stop. Also puts a configuration in force that was
//! read again.

use super::{Daemon, Driver};
use crate::functions::catalog::Rescan;
use crate::settings::settings_document;
use crate::systemd;
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_wire::frame::SettingsRead;
use fnd_wire::ids::InvocationId;
use fnd_wire::naming::UPLOADS;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

impl Daemon {
    /// Starts a scan; resolves when everything it sees is installed or refused.
    pub(crate) fn scan(&self) -> oneshot::Receiver<()> {
        let (sender, settled) = oneshot::channel();
        let mut state = self.state.borrow_mut();
        let number = state.lifecycle.installer.new_scan();
        state.functions.catalog.rescan(number, Rescan::default());
        state.functions.settling.push((number, sender));
        settled
    }

    /// Reads configuration and functions again; resolves when every difference is applied or refused. The service
    /// manager is notified of both. With `accept_empty` an empty functions directory is accepted as meant.
    pub(crate) fn reload(&self, accept_empty: bool) -> oneshot::Receiver<()> {
        systemd::reloading();
        let (sender, settled) = oneshot::channel();
        let mut state = self.state.borrow_mut();
        state.functions.reloading = true;
        state.workers.reload();
        let scan = state.lifecycle.installer.new_scan();
        // Everything is judged again, because defaults and sizes may have changed. The scan comes after the settings,
        // because the spawner answers in order.
        let how = Rescan {
            forget: true,
            accept_empty,
        };
        state.functions.catalog.rescan(scan, how);
        state.functions.settling.push((scan, sender));
        drop(state);
        self.changed.notify_one();
        settled
    }

    /// Refuses new work; resolves with true when nothing runs any more, or with false when somebody cancels the drain.
    pub fn drain(&self) -> oneshot::Receiver<bool> {
        self.wind_down(Event::Drain)
    }

    /// Like [`Self::drain`], but nobody can cancel it: fnd stops.
    pub(crate) fn drain_to_stop(&self) -> oneshot::Receiver<bool> {
        self.state.borrow_mut().callers.stops();
        self.drain()
    }

    /// Like [`Self::drain_to_stop`], but cancels all work, so that it takes no longer than the grace periods.
    pub(crate) fn cancel_to_stop(&self) -> oneshot::Receiver<bool> {
        // The drain comes first: otherwise each cancellation would make room in which queued work begins.
        let drained = self.drain_to_stop();
        let live: Vec<InvocationId> = self.state.borrow().supervisor.live_invocations().collect();
        for id in live {
            let (_, reply) = self.state.borrow_mut().callers.expect_answer(); // nobody waits for the answer
            self.step(Event::Cancel { id, reply });
        }
        drained
    }

    /// Accepts and starts work again, if there was a drain. Returns false if fnd stops: then nothing changes.
    pub(crate) fn cancel_drain(&self) -> bool {
        if !self.state.borrow_mut().callers.cancel_drain() {
            return false;
        }
        self.step(Event::CancelDrain);
        true
    }

    /// Refuses new work and starts nothing more; resolves when every caller is answered. Running work goes on under the
    /// next fnd.
    pub fn hand_over(&self) -> oneshot::Receiver<bool> {
        self.state.borrow_mut().callers.stops();
        self.wind_down(Event::HandOver)
    }

    fn wind_down(&self, event: Event) -> oneshot::Receiver<bool> {
        // The place comes before the event: if nothing runs, the event itself ends the drain.
        let drained = self.state.borrow_mut().callers.wait_for_drain();
        self.step(event);
        self.drains.notify_waiters();
        drained
    }
}

impl Driver {
    pub(super) fn settings_read(&mut self, read: SettingsRead) {
        let applied = read.applied;
        match settings_document(read) {
            Ok(document) => {
                if self.node.settings.apply(document, applied) {
                    self.settings_changed();
                }
                self.problems_changed();
                self.announce();
            }
            Err(error) => self.report(ReportEvent::NodeError(format_args!(
                "the configuration cannot be read: {error}"
            ))),
        }
    }

    /// Passes the configuration on to every part that depends on it.
    pub(crate) fn settings_changed(&mut self) {
        self.supervisor.set_budget(self.node.settings.budget());
        self.callers.buffers.resize(self.node.settings.settings.node.buffers);
        let spin = Duration::from_micros(self.node.settings.settings.node.spin.into());
        self.spin.set_limit(spin);
        let uploads = Path::new(&self.node.places.state).join(UPLOADS);
        self.functions
            .catalog
            .set_rules(self.node.settings.catalog_rules(uploads));
        self.reporter
            .status_files
            .set_mode(self.node.settings.settings.status.mode);
        self.retain();
        self.audit.retain(self.node.settings.settings.audit.keep_for);
        self.state.look_again();
        self.prune_all();
        self.check_alerts();
        self.catch_up();
        self.expose_metrics();
        let http = &self.node.settings.settings.http;
        self.listener.apply(http);
        let events = http.events.as_ref().map(|events| events.path.as_str());
        self.lifecycle.set_events_path(events);
        self.ask_for_tls();
        self.ask_for_events();
        let problems = self.node.settings.resolve_access();
        // Where fnd was started by hand the default group may not exist, and only the person who started fnd uses the
        // socket.
        if self.workers.spawner_pid.is_none() {
            problems
                .iter()
                .for_each(|problem| self.report(ReportEvent::NodeWarning(format_args!("{problem}"))));
        }
    }
}
