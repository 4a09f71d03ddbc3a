//! Requests about the node: everything that belongs to no function.

use super::NodeBackend;
use super::{BundlePieces, Database, Failure, Pending};
use super::{DaemonBackend, failure};
use crate::buffers::Buffers;
use crate::exposition::scrape;
use crate::functions::reported::versions_now;
use crate::http::connections::Connections;
use crate::input::TaskOwner;
use crate::metrics::MetricsFormat;
use crate::telemetry::level;
use fnd_core::api::{AuditList, NodeStatus, ReloadReport, SizeView, ValidateReport, ValidateRequest};
use fnd_core::audit::{AuditFilter, AuditedCalls};
use fnd_manifest::check;
use fnd_manifest::check::Disk;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::runtime::RuntimeSummary;
use fnd_wire::units;
use std::os::unix::fs::PermissionsExt as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

impl NodeBackend for DaemonBackend {
    fn buffers(&self) -> Arc<Buffers> {
        Arc::clone(&self.daemon.state.borrow().callers.buffers)
    }

    fn connections(&self) -> Rc<Connections> {
        Rc::clone(&self.daemon.state.borrow().callers.connections)
    }

    fn health(&self) -> Result<(), String> {
        self.daemon.state.borrow().look().health()
    }

    fn node_status(&self) -> NodeStatus {
        self.daemon.state.borrow().node_status()
    }

    fn metrics(&self, form: MetricsFormat) -> Pending<String> {
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move { scrape(&daemon, form).await })
    }

    fn backup(&self, of: Database) -> Pending<Result<(u64, BundlePieces), Failure>> {
        let state = self.logs.with_file_name("state");
        let control = self.clone();
        Box::pin(async move {
            if of == Database::Ledger {
                control.ends_stored().await?;
            }
            crate::backend::backup::take(state, of).await
        })
    }

    fn audit(&self, entry: AuditedCalls) -> Option<Pending<()>> {
        let written = self.audit.record(entry)?;
        Some(Box::pin(written))
    }

    fn audited(&self, filter: AuditFilter) -> Pending<Result<AuditList, Failure>> {
        let audit = self.audit.clone();
        Box::pin(async move { audit.list(filter).await.map_err(Failure) })
    }

    fn reload(&self, accept_empty: bool) -> Pending<Result<ReloadReport, Failure>> {
        let before = versions_now(&self.daemon.state.borrow().lifecycle);
        let settled = self.daemon.reload(accept_empty);
        let daemon = Rc::clone(&self.daemon);
        Box::pin(async move {
            settled.await.map_err(|_| Failure("fnd is stopping".into()))?;
            let state = &mut *daemon.state.borrow_mut();
            let settings = &state.node.settings;
            // Not only once the directories are quiet: the person who reloads should see the warning.
            let (functions, lifecycle) = (&mut state.functions, &state.lifecycle);
            functions.find_projects(&lifecycle.registry, &state.workers.welcome.functions_dirs);
            let mut report = functions.report(lifecycle, &before);
            report.configuration_refused = settings.refused;
            report.diagnostics.splice(0..0, settings.diagnostics.iter().cloned());
            Ok(report)
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

    fn drain(&self) -> oneshot::Receiver<bool> {
        self.daemon.drain()
    }

    fn cancel_drain(&self) -> bool {
        self.daemon.cancel_drain()
    }

    fn set_log_level(&self, level: &str, time: Option<Duration>) -> Result<(), String> {
        if let Some(restored) = level::set(level, time)? {
            self.daemon.inbox.spawn(TaskOwner::Caller, restored);
        }
        Ok(())
    }

    fn runtimes(&self) -> Vec<RuntimeSummary> {
        let mut runtimes = self.daemon.state.borrow().node.settings.runtimes.clone();
        for version in runtimes.iter_mut().flat_map(|runtime| &mut runtime.versions) {
            version.path = installed(&version.interpreter);
            version.installed = version.path.is_some();
        }
        runtimes
    }

    fn sizes(&self) -> Vec<SizeView> {
        let state = self.daemon.state.borrow();
        let sizes = state.node.settings.settings.sizes.iter();
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
        serde_json::to_value(&self.daemon.state.borrow().node.settings.settings).unwrap_or_default()
    }
}

/// Returns the real path of a program; nothing where it is not there.
fn installed(path: &str) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    let about = std::fs::metadata(&real).ok()?;
    (about.is_file() && about.permissions().mode() & 0o111 != 0).then(|| real.display().to_string())
}
