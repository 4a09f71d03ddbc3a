//! Bodies of the control API and of status files. Version 1; fields are added, never renamed.
//!
//! Instants are RFC 3339 text in UTC with milliseconds, durations are milliseconds, sizes are bytes. Null means that
//! the value is known to be absent.
//!
//! - `audit`: what callers did.
//! - `codes`: the code of each end and of each refusal.
//! - `events`: events that were accepted.
//! - `functions`: functions, with their last execution; the content of status files.
//! - `invocations`: invocations, attempts and dead letters.
//! - `nats`: the connection to NATS, and the entries of `[[nats]]`.
//! - `node`: the node's status, runtimes and sizes, reload and validation.
//! - `overview`: the node at a glance, and the caller
//! - `problem`: refusals, and the one table of their codes.
//! - `releases`: the releases of functions, and their files.
//! - `routes`: the routes of the public listener.
//! - `schedules`: schedules and their next slots.
//! - `state`: the state that functions share.
//! - `stream`: what comes line by line: events and output.
//! - `usage`: what functions use now.
//! - `components`: their schemas.

mod audit;
mod codes;
mod components;
mod events;
mod functions;
mod invocations;
mod nats;
mod node;
mod overview;
pub mod problem;
mod releases;
mod routes;
mod schedules;
mod state;
pub mod stream;
mod usage;

pub use audit::{AuditEntry, AuditList};
pub use components::components;
pub use events::{BatchAccepted, EventAccepted};
pub use functions::{
    AlertState, FunctionChange, FunctionDetail, FunctionList, FunctionMore, FunctionStatus, GroupPlaces, HeldBack,
    LastEnd, NewerVersion, RemovedFunction, ServiceStop, ShellTarget, StorageUse, WaitsFor,
};
pub use invocations::{
    AttemptView, DeadLetter, DeadLetterList, HookEnd, InvocationList, InvocationView, Queued, UsageScope, milliseconds,
};
pub use nats::{NatsState, NatsTriggerView, NatsView, PublishedMessage, ReleasedClaim};
pub use node::{
    Changed, DiskUse, LAYERS, LogLevel, NodePlaces, NodeState, NodeStatus, ReloadReport, RuntimeList, SizeList,
    SizeView, ValidateReport, ValidateRequest,
};
pub use overview::{Attention, AttentionView, CallerView, NextRun, NodeProblemView, Overview, RoleOfFunctions};
pub use problem::Problem;
pub use releases::{
    CanaryView, HoldKind, HoldView, ReleaseChanged, ReleaseFile, ReleaseFiles, ReleaseList, ReleaseState, ReleaseView,
};
pub use routes::{CheckView, EventsRoute, RouteList, RouteTest, RouteTestReport, RouteView};
pub use schedules::{ScheduleList, ScheduleState, ScheduleView};
pub use state::{StateEntry, StateKeyView, StateKeys, StateScope, StateScopes, StateWritten};
pub use stream::{LogLine, LogList, LogStream};
pub use usage::{FunctionUsage, UsageList};
