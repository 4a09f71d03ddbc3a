//! The document about the node, and whether fnd can run functions.

use super::{View, count};
use crate::free_space::FreeSpace;
use crate::quotas::unmeasured;
use crate::workers::silence::start_problems;
use crate::workers::usage;
use fnd_core::api::{DiskUse, NodePlaces, NodeState, NodeStatus};
use fnd_core::instant;
use fnd_wire::frame::Containment;
use std::path::Path;

impl View<'_> {
    /// Returns an error if fnd cannot run functions.
    pub(crate) fn health(&self) -> Result<(), String> {
        match &self.workers.connection {
            Some(_) => start_problems(self.supervisor)
                .next()
                .map_or(Ok(()), |problem| Err(problem.text)),
            None => Err("no connection to fnd-spawner".into()),
        }
    }

    /// Returns the status of the node, without its functions. It reads numbers that are kept, because monitoring asks for it
    /// often, also where there are ten thousand functions. `packages_bytes` is the size of all trees of dependencies.
    pub(crate) fn node(&self, left_behind: Vec<String>, packages_bytes: u64) -> NodeStatus {
        let figures = self.ledger.figures();
        let free = FreeSpace::at(Path::new(&self.node.places.state));
        let by_state = self.supervisor.by_state();
        let by_state = by_state.map(|(state, number)| (state.as_str().to_owned(), count(number)));
        let state = match (&self.workers.connection, self.supervisor.is_draining()) {
            // Without a spawner nothing runs, whether fnd drains or not.
            (None, _) => NodeState::NoSpawner,
            (Some(_), true) => NodeState::Draining,
            (Some(_), false) => NodeState::Running,
        };
        let containment = match self.workers.welcome.containment {
            Containment::Cgroup => "cgroup",
            Containment::PidNamespace => "pid namespace",
            Containment::Subreaper => "subreaper (best effort)",
        };
        NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            spawner_version: self.workers.welcome.version.clone(),
            state,
            started_at: instant::text(self.node.started_ms),
            node: self.node.settings.host.clone(),
            cgroups: self.workers.welcome.layout.clone(),
            containment: containment.into(),
            not_enforced: self
                .workers
                .welcome
                .missing
                .iter()
                .cloned()
                .chain(unmeasured(self.workers.welcome.is_of_0_1()))
                .collect(),
            left_behind,
            unclaimed: self.functions.unclaimed.paths.clone(),
            unclaimed_count: self.functions.unclaimed.count(),
            memory_bytes: usage::resident(self.workers.spawner_pid),
            running: count(self.supervisor.running()),
            queued: count(self.supervisor.queued()),
            functions_by_state: by_state.collect(),
            problems: self.problems().into_iter().map(|problem| problem.text).collect(),
            functions: Vec::new(),
            dead_letters: figures.dead_letters.values().sum(),
            disk: Some(DiskUse {
                history_bytes: figures.history_bytes,
                history_keep_bytes: self.node.settings.settings.history.keep_bytes,
                packages_bytes,
                logs_bytes: self.output.kept_bytes(),
                logs_keep_bytes: self.node.settings.settings.logs.keep_bytes,
                free_bytes: free.map(|free| free.bytes),
                free_inodes: free.and_then(|free| free.inodes),
            }),
            places: Some(NodePlaces {
                functions: self.workers.welcome.functions_dirs.clone(),
                ..self.node.places.clone()
            }),
        }
    }
}
