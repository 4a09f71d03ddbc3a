//! Reports news, problems of the node and states of functions, and writes status files. It decides nothing.

use super::Driver;
use crate::chain;
use crate::views::trees::trees;
use crate::views::{FileWork, View};
use fnd_core::api::NodeStatus;
use fnd_core::report::ReportEvent;
use fnd_wire::ids::FunctionName;

impl Driver {
    /// Returns a view of the supervisor and the parts, from which documents and problems are read.
    pub(crate) fn look(&self) -> View<'_> {
        View {
            now: self.clock.now(),
            supervisor: &self.supervisor,
            lifecycle: &self.lifecycle,
            functions: &self.functions,
            workers: &self.workers,
            node: &self.node,
            ledger: &self.records.ledger,
            output: &self.output,
            quotas: &self.quotas,
            schedules: &self.schedules,
            watchers: &self.watchers,
            secrets: &self.secrets,
            alerts: &self.follow_ups.alerts,
            reporter: &self.reporter,
            callers: &self.callers,
            listener: &self.listener,
            audit: &self.audit,
            state: &self.state,
        }
    }

    /// Returns the internal runs for a function's file.
    pub(crate) fn file_work(&self, function: &FunctionName) -> FileWork {
        let known = self.supervisor.version_and_error(function);
        FileWork {
            build: self.lifecycle.builds.words(function),
            check: self.check_words(function, known.and_then(|(version, _)| version)),
            last_build: self.lifecycle.builds.last(function),
        }
    }

    /// Returns the status of the node, without its functions.
    pub(crate) fn node_status(&self) -> NodeStatus {
        let packages_bytes = self.trees.bytes(&trees(&self.node.places.state));
        self.look().node(self.left_behind(), packages_bytes)
    }

    /// Reports an event everywhere: whoever has news calls this.
    pub(crate) fn report(&mut self, event: ReportEvent<'_>) {
        if let Some(function) = self.reporter.report(event) {
            self.write_status_soon(function);
        }
    }

    /// Reports that the newest content of a function does not serve, and why.
    pub(super) fn report_refused(&mut self, function: &FunctionName, message: &str) {
        let known = self.lifecycle.registry.get(function);
        let diagnostics = known.map_or_else(Vec::new, |known| known.findings.diagnostics.clone());
        self.report(ReportEvent::VersionRefused {
            function,
            message,
            diagnostics: &diagnostics,
        });
    }

    /// Reports that the status of a function has changed, and checks its alerts, whose conditions are facts of the status.
    pub(super) fn status_changed(&mut self, function: &FunctionName) {
        self.check_facts(function);
        self.report(ReportEvent::StatusChanged(function));
    }

    /// Removes the status files of functions that went away while fnd was not running.
    pub(crate) fn forget_statuses(&mut self) {
        let known = self.supervisor.functions().map(|view| view.name.clone()).collect();
        if let Err(error) = self.reporter.status_files.keep_only(&known) {
            self.report(ReportEvent::NodeWarning(format_args!("{}", chain(&error))));
        }
    }

    /// Writes a function's status file now, or with its next changes if it was just written.
    fn write_status_soon(&mut self, function: &FunctionName) {
        if self.reporter.status_files.changed(function, self.clock.now().mono) {
            self.write_status(function);
        }
    }

    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let status = self.look().function_status(function, self.file_work(function));
        // The status shows that an attempt has ended, which is when the home of the function may have grown.
        status.iter().for_each(|status| self.quota_after(status));
        let written = match status {
            Some(status) => self.reporter.status_files.write(&status),
            // Perhaps the function is not installed yet. The end of the first scan removes the files of functions that are
            // gone.
            None if !self.supervisor.is_scanned() => return,
            None => self.reporter.status_files.remove(function),
        };
        let mono = self.clock.now().mono;
        if self.reporter.status_files.tried(function, mono, written.is_ok())
            && let Err(error) = written
        {
            self.report(ReportEvent::NodeWarning(format_args!(
                "{}, it is tried again every second",
                chain(&error)
            )));
        }
    }

    /// Writes the status files whose changes waited for their next write.
    pub(crate) fn write_due(&mut self) {
        for function in self.reporter.status_files.due(self.clock.now().mono) {
            self.write_status(&function);
        }
    }

    /// Has metrics served in the places that the configuration names.
    pub(crate) fn expose_metrics(&mut self) {
        self.reporter.exposed.serve(&self.node.settings.settings.metrics);
    }

    /// Has the main loop compare the problems with those reported last.
    pub(crate) fn problems_changed(&mut self) {
        self.reporter.problems.due = true;
        self.changed.notify_one();
    }

    /// Reports which problems began and which are over, if they may have changed.
    pub(crate) fn report_problems(&mut self) {
        if !std::mem::take(&mut self.reporter.problems.due) {
            return;
        }
        let now = self.look().problems();
        // Alerts make a comparison of their own: they also know the problems about which an earlier fnd has made a call.
        self.check_problems(&now);
        self.reporter.compare_problems(now);
        self.catch_up();
    }
}
