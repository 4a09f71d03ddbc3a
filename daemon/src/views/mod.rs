//! The documents of the API and of the status files, and the problems of the node. [`View`] has a
//! reference to the supervisor and to each part. Nothing here changes them.
//!
//! Files:
//! - `attention`: which functions need a person
//! - `function`: the documents about one function
//! - `lists`: which functions the long lists of the API have, and their pieces
//! - `node`: the document about the node
//! - `problems`: gathers the problems of the node from every part
//! - `trees`: the trees of dependencies on the disk

mod attention;
mod function;
pub(crate) mod lists;
mod node;
mod problems;
pub(crate) mod trees;

use crate::callers::Callers;
use crate::functions::Functions;
use crate::ledger::LedgerWriter;
use crate::output::Output;
use crate::quotas::Measurements;
use crate::report::Reporter;
use crate::settings::NodeInfo;
use crate::stores::audit::Audit;
use crate::stores::kv::StateStore;
use crate::triggers::files::Watchers;
use crate::triggers::http::Listener;
use crate::triggers::nats::Messages;
use crate::triggers::schedule::ScheduleTimer;
use crate::triggers::secrets::TriggerSecrets;
use crate::workers::Workers;
use fnd_core::lifecycle::Lifecycle;
use fnd_core::run::{Now, Supervisor};
use fnd_core::triggers::alerts::{Alerts, NodeHealth};

/// The supervisor and the parts, as they are at one moment.
pub(crate) struct View<'a> {
    pub(crate) now: Now,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) functions: &'a Functions,
    pub(crate) workers: &'a Workers,
    pub(crate) node: &'a NodeInfo,
    pub(crate) ledger: &'a LedgerWriter,
    pub(crate) output: &'a Output,
    pub(crate) quotas: &'a Measurements,
    pub(crate) schedules: &'a ScheduleTimer,
    pub(crate) watchers: &'a Watchers,
    pub(crate) nats: &'a Messages,
    pub(crate) secrets: &'a TriggerSecrets,
    pub(crate) alerts: &'a Alerts,
    pub(crate) node_health: &'a NodeHealth,
    pub(crate) reporter: &'a Reporter,
    pub(crate) callers: &'a Callers,
    pub(crate) listener: &'a Listener,
    pub(crate) audit: &'a Audit,
    pub(crate) state: &'a StateStore,
}

/// Returns a count in the API's type; counts are bounded far below its maximum.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
