//! Its node: nothing is wrong with it.

use super::{BEGAN, ENDED, Fake, diagnostic, id, later, name};
use fnd_core::api::{
    AuditEntry, AuditList, NodeState, NodeStatus, ReloadReport, SizeView, ValidateReport, ValidateRequest,
};
use fnd_core::audit::{AuditFilter, AuditedCalls};
use fnd_daemon::backend::{BundlePieces, Database, Failure, NodeBackend, Pending};
use fnd_daemon::buffers::Buffers;
use fnd_daemon::control::limits;
use fnd_daemon::http::connections::Connections;
use fnd_daemon::metrics::MetricsFormat;
use fnd_daemon::telemetry::level;
use fnd_manifest::runtime::{RuntimeSummary, RuntimeVersion};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

impl NodeBackend for Fake {
    fn buffers(&self) -> Arc<Buffers> {
        Arc::clone(
            self.buffers
                .get_or_init(|| Buffers::new(64 << 20, std::env::temp_dir())),
        )
    }

    fn connections(&self) -> Rc<Connections> {
        let connections = || Rc::new(Connections::new("the control socket", limits::PLACES));
        Rc::clone(self.connections.get_or_init(connections))
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn node_status(&self) -> NodeStatus {
        NodeStatus {
            version: "0.1.0".to_owned(),
            spawner_version: "0.1.0".to_owned(),
            state: NodeState::Running,
            started_at: "2026-11-21T08:00:00.000Z".to_owned(),
            node: "vm1".to_owned(),
            cgroups: "v2".to_owned(),
            containment: "cgroup.kill".to_owned(),
            not_enforced: [("memory".to_owned(), "cgroups are read-only".to_owned())].into(),
            left_behind: Vec::new(),
            unclaimed: Vec::new(),
            unclaimed_count: 0,
            memory_bytes: 8 << 20,
            running: 0,
            queued: 0,
            functions_by_state: [("ready".to_owned(), 13), ("invalid".to_owned(), 1)].into(),
            problems: Vec::new(),
            functions: Vec::new(),
            dead_letters: 1,
            disk: None,
            places: None,
        }
    }

    fn metrics(&self, form: MetricsFormat) -> Pending<String> {
        Box::pin(async move { format!("# {form:?}\n") })
    }

    fn backup(&self, of: Database) -> Pending<Result<(u64, BundlePieces), Failure>> {
        assert_eq!(of, Database::Ledger);
        let (sender, pieces) = mpsc::channel(2);
        sender.try_send(b"SQLite ".to_vec()).unwrap();
        sender.try_send(b"format 3".to_vec()).unwrap();
        later(Ok((15, pieces)))
    }

    fn audit(&self, entry: AuditedCalls) -> Option<Pending<()>> {
        self.seen.lock().unwrap().audit.push(entry);
        Some(later(()))
    }

    fn audited(&self, filter: AuditFilter) -> Pending<Result<AuditList, Failure>> {
        let entry = AuditEntry {
            time: fnd_core::instant::text(*BEGAN),
            uid: 1000,
            user: Some("ada".to_owned()),
            pid: Some(4711),
            exe: Some("/usr/bin/fndctl".to_owned()),
            verb: "invoke".to_owned(),
            function: Some(name("hello")),
            invocation: Some(id(ENDED)),
            status: Some(200),
            code: None,
            refused: false,
            duration_us: 12_300,
            count: 1,
        };
        let refused = AuditEntry {
            uid: 65_534,
            user: None,
            exe: None,
            verb: "disable".to_owned(),
            invocation: None,
            status: Some(403),
            code: Some("not-allowed".to_owned()),
            refused: true,
            count: 42,
            ..entry.clone()
        };
        let next = (filter.limit == 2).then(|| "7".to_owned());
        later(Ok(AuditList {
            entries: vec![refused, entry],
            next,
        }))
    }

    fn reload(&self, _: bool) -> Pending<Result<ReloadReport, Failure>> {
        later(Ok(ReloadReport {
            applied: vec![name("hello")],
            removed: vec![name("gone")],
            configuration_refused: false,
            diagnostics: vec![diagnostic()],
            still_invalid: vec![name("old")],
        }))
    }

    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>> {
        let valid = !request.content.contains("pyhton");
        let diagnostics = if valid { Vec::new() } else { vec![diagnostic()] };
        later(Ok(ValidateReport { valid, diagnostics }))
    }

    fn drain(&self) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        self.draining.borrow_mut().push(sender);
        receiver
    }

    fn cancel_drain(&self) -> bool {
        for waiting in self.draining.borrow_mut().drain(..) {
            let _ = waiting.send(false); // its caller has gone
        }
        true
    }

    fn set_log_level(&self, level: &str, time: Option<Duration>) -> Result<(), String> {
        level::set(level, time).map(drop)
    }

    fn runtimes(&self) -> Vec<RuntimeSummary> {
        vec![RuntimeSummary {
            id: "python".to_owned(),
            description: "Python scripts".to_owned(),
            suffixes: vec![".py".to_owned()],
            aliases: vec!["python3".to_owned()],
            versions: vec![
                RuntimeVersion {
                    name: "3.11".to_owned(),
                    interpreter: "/opt/python3.11".to_owned(),
                    installed: true,
                    path: Some("/opt/python3.11".to_owned()),
                },
                RuntimeVersion::new("3.9".to_owned(), "/opt/python3.9".to_owned()),
            ],
            enabled: true,
            probe: Vec::new(),
        }]
    }

    fn sizes(&self) -> Vec<SizeView> {
        let limits = [
            ("cpu".to_owned(), "150m".to_owned()),
            ("memory".to_owned(), "256M".to_owned()),
        ];
        vec![SizeView {
            name: "XS".to_owned(),
            limits: limits.into(),
        }]
    }

    fn config(&self) -> serde_json::Value {
        serde_json::json!({"build": {"env": {"TOKEN": "hunter3"}}, "keep_versions": 5, "node": {"max_workers": 1000}})
    }
}
