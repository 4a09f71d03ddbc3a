//! Puts a configuration in force that was read while fnd runs.

use super::Driver;
use crate::functions::install::settings_document;
use fnd_wire::frame::SettingsRead;
use fnd_wire::naming::UPLOADS;
use std::path::Path;
use std::time::Duration;

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
            Err(error) => tracing::error!("the configuration cannot be read: {error}"),
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
        self.functions.set_events_path(events);
        self.ask_for_tls();
        self.ask_for_events();
        let problems = self.node.settings.resolve_access();
        // Where fnd was started by hand the default group may not exist, and only the person who started fnd uses the
        // socket.
        if self.workers.spawner_pid.is_none() {
            problems.iter().for_each(|problem| tracing::warn!("{problem}"));
        }
    }
}
