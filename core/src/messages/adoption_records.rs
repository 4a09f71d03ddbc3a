//! Adoption records of workers: the spawner keeps them without reading them, and the next fnd goes on with them.

use super::end_cause::EndCause;
use super::rules::Rules;
use crate::records::cause::CallCause;
use crate::records::outcome::Trigger;
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// The adoption record of a script's worker: the next fnd goes on with it. The spawner keeps it, unread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptRecord<'a> {
    /// The function whose worker it is.
    #[serde(with = "fnd_manifest::text::id")]
    pub function: Cow<'a, FunctionName>,
    /// The function's number at the spawner.
    pub id: u32,
    /// The version that runs.
    #[serde(with = "fnd_manifest::text::id")]
    pub version: Version,
    /// The content key by which "once per content" is decided.
    #[serde(with = "fnd_manifest::text::id")]
    pub load_key: Version,
    /// The attempt that the worker runs, and its invocation.
    #[serde(flatten)]
    pub run: RunRecord,
    /// The rules of the version that runs, without the payload.
    pub rules: Cow<'a, Rules>,
}

/// The adoption record of a handler's worker: the next fnd goes on with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemberRecord<'a> {
    /// The function whose worker it is.
    #[serde(with = "fnd_manifest::text::id")]
    pub function: Cow<'a, FunctionName>,
    /// The function's number at the spawner.
    pub id: u32,
    /// The version that runs.
    #[serde(with = "fnd_manifest::text::id")]
    pub version: Version,
    /// The content key by which "once per content" is decided.
    #[serde(with = "fnd_manifest::text::id")]
    pub load_key: Version,
    /// Most calls in flight; absent while its code is not loaded.
    pub concurrency: Option<u32>,
    /// Whether it can end one call while others go on; false in a record of an older fnd.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancels: bool,
    /// The calls whose answers are to be ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<u64>,
    /// Number of calls served.
    pub served: u32,
    /// Whether the worker takes no more calls.
    pub retiring: bool,
    /// Highest call number so far, over all workers.
    pub last_call: u64,
    /// The calls in flight.
    pub calls: Vec<CallRecord>,
    /// The rules of the version that runs.
    pub rules: Cow<'a, Rules>,
}

/// The adoption record of a call in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call's number.
    pub call: u64,
    /// The attempt that the call runs, and its invocation.
    #[serde(flatten)]
    pub run: RunRecord,
    /// Whether the call waited for its worker to start.
    pub cold: bool,
}

/// An attempt that runs, and its invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// The invocation of which this is an attempt.
    #[serde(with = "fnd_manifest::text::id")]
    pub invocation: InvocationId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// The invocation's trigger.
    pub trigger: Trigger,
    /// When the invocation was accepted, Unix milliseconds.
    pub accepted_ms: u64,
    /// When the invocation's first attempt began, Unix milliseconds.
    pub first_ms: u64,
    /// When this attempt began, Unix milliseconds.
    pub started_ms: u64,
    /// Timeout of this attempt.
    pub timeout: Option<Duration>,
    /// End of the whole invocation, Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// The same times without the wall clock. Each release of fnd has written them; without them the attempt counts as begun with its
    /// worker, and as without a deadline.
    #[serde(default)]
    pub times: Times,
    /// Whether standard output is a CGI document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgi: bool,
    /// The function and the invocation that called it, if a function did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<CallCause>,
    /// The invocation's value of `[queue] key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_key: Option<String>,
    /// Why the attempt is being ended, once fnd has ordered that; absent in a record of an older fnd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<EndCause>,
}

impl RunRecord {
    /// Returns how long after its start the attempt ends by its own limits.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        self.timeout.into_iter().chain(self.times.deadline_in).min()
    }
}

/// The times of an attempt on the monotonic clock. The wall clock may be set while no fnd runs, so the next fnd counts
/// from the age of the worker, which the spawner measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From the worker's start to the attempt's; zero for a script, whose worker is the attempt.
    pub started_after: Duration,
    /// From the start of the invocation's first attempt to the start of this one.
    pub since_first: Duration,
    /// From the attempt's start to the deadline of the invocation.
    pub deadline_in: Option<Duration>,
}

/// A worker of an earlier fnd. It runs, or its exit follows.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// The worker's number.
    pub worker: WorkerId,
    /// The adoption record that the earlier fnd left.
    pub record: ScriptRecord<'static>,
    /// Time since the worker's start.
    pub age: Duration,
    /// Time since the worker's SIGTERM, and its cause; absent without a SIGTERM.
    pub termed: Option<(Duration, TermCause)>,
    /// Whether the worker has ended; its [`Exited`](super::event::Exited) follows.
    pub ended: bool,
}

/// A handler's worker of an earlier fnd. The worker goes on serving, or its exit follows.
#[derive(Debug, Clone)]
pub struct AdoptedMember {
    /// The worker's number.
    pub worker: WorkerId,
    /// The adoption record that the earlier fnd left.
    pub record: MemberRecord<'static>,
    /// Time since the worker's start.
    pub age: Duration,
    /// Whether the worker has ended.
    pub ended: bool,
    /// Whether the spawner ended it for its time, or is ending it: only a lease gives such a worker a time.
    pub is_fenced: bool,
}
