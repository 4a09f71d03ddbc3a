//! `GET /v1/audit`, and the entries of calls. These calls make an entry: a call whose route needs more than the role viewer; and
//! every call that is refused because of the caller's role, or because the socket is that of a function and the caller is another
//! user. A call that has led to a run makes none where the record of the run has the caller.

use super::{ADMIN, AUDIT, ControlRoute, RouteAbout};
use crate::backend::Backend;
use crate::clock;
use crate::control::call::ControlCall;
use crate::control::limits::PAGE;
use crate::control::refusal::failed;
use crate::http::query::wrong;
use crate::http::response::{Answered, INVOCATION, Refusal, long_json};
use crate::peer::Peer;
use fnd_core::access::Permissions;
use fnd_core::audit::{AuditCursor, AuditFilter, AuditedCalls, LOST};
use fnd_manifest::schema::one_of;
use fnd_manifest::schema::read::nearest;
use fnd_manifest::settings::Role;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

pub(super) static ROUTES: &[ControlRoute] = &[route!(GET "/v1/audit" Node ADMIN AUDIT, list, Some(FILTER))];

const FILTER: &[&str] = &[
    "function", "user", "verb", "refused", "since", "until", "limit", "after",
];

/// Lists a page of the audit, newest first.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let query = &call.query;
    let filter = AuditFilter {
        function: query.function("function")?,
        user: query.text("user", "a name or a uid")?,
        verb: verb(query.text("verb", "a verb such as `invoke`")?)?,
        refused: query.switch("refused")?,
        since_ms: query.instant("since")?,
        until_ms: query.instant("until")?,
        limit: query.count("limit", PAGE)?,
        after: query.get("after", "the cursor `next` of the page before", AuditCursor::parse)?,
    };
    let list = call.backend.audited(filter).await.map_err(failed("read the audit"))?;
    long_json(list.entries.len(), list).await
}

/// Refuses a verb that no entry can have: an empty list would say that nobody made such a call.
fn verb(typed: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(typed) = typed else { return Ok(None) };
    let mut verbs: Vec<&str> = super::routes().map(|route| route.verb).collect();
    verbs.extend([UNKNOWN, CONNECT, LOST]);
    verbs.sort_unstable();
    verbs.dedup();
    if verbs.contains(&typed.as_str()) {
        return Ok(Some(typed));
    }
    let expected = match nearest(&typed, &verbs) {
        Some(near) => format!("a verb such as `{near}`"),
        None => one_of(&verbs),
    };
    Err(wrong("verb", &expected, &typed))
}

/// The verb of a request whose path no route has. Only a caller without a role makes an entry with this verb.
const UNKNOWN: &str = "unknown";
/// The verb of a connection to a function's socket that is refused before it sends a request.
const CONNECT: &str = "connect";

/// Records that a peer was refused at the socket of a function.
pub(in crate::control) fn refused_at_socket(
    backend: &Rc<Backend>,
    peer: &Peer,
    function: &FunctionName,
    refusal: &Refusal,
) {
    let mut audit = Auditing::new(backend, peer);
    audit.verb = CONNECT;
    audit.refused = true;
    audit.function = Some(function.clone());
    audit.code = Some(refusal.problem.code.clone());
    audit.is_recorded = true;
    let entry = audit.entry(Some(refusal.problem.status));
    drop(backend.audit.record(entry)); // nobody waits for the entry of a refusal
}

/// The entry of a call while the call is answered. If the caller leaves before the answer, the entry is recorded as well.
pub(super) struct Auditing<'a> {
    backend: &'a Rc<Backend>,
    peer: &'a Peer,
    at_ms: u64,
    begun: Instant,
    verb: &'static str,
    /// Whether the call is recorded even if it is not refused.
    pub(super) changes: bool,
    pub(super) refused: bool,
    pub(super) function: Option<FunctionName>,
    invocation: Option<InvocationId>,
    code: Option<String>,
    is_recorded: bool,
    /// Whether a run was requested whose record has the caller.
    pub(super) is_in_record: Rc<Cell<bool>>,
}

impl<'a> Auditing<'a> {
    pub(super) fn new(backend: &'a Rc<Backend>, peer: &'a Peer) -> Self {
        Self {
            backend,
            peer,
            at_ms: clock::unix_ms(),
            begun: clock::monotonic(),
            verb: UNKNOWN,
            changes: false,
            refused: false,
            function: None,
            invocation: None,
            code: None,
            is_recorded: false,
            is_in_record: Rc::default(),
        }
    }

    /// Notes the route of the call.
    pub(super) fn is_about(&mut self, route: &ControlRoute, places: &[String]) {
        self.verb = route.verb;
        self.changes = route.role > Some(Role::Viewer) && route.verb != AUDIT;
        let place = places.first().map(String::as_str);
        match route.about {
            RouteAbout::Function => self.function = place.and_then(|name| FunctionName::new(name).ok()),
            RouteAbout::Invocation => self.invocation = place.and_then(InvocationId::parse),
            RouteAbout::List | RouteAbout::Node => {}
        }
    }

    /// Stores the refusal that is the answer to the call.
    pub(super) fn is_refused_with(&mut self, refusal: &Refusal, reach: &Permissions) {
        let problem = &refusal.problem;
        // A call that was rejected has no record, also if its caller leaves before it has this answer.
        if problem.invocation.is_none() {
            self.is_in_record.set(false);
        }
        // The handler of a list has refused a function that the caller may not view.
        let is_hidden = |name: &FunctionName| problem.status == 404 && !reach.views(name);
        self.refused |= problem.function.as_ref().is_some_and(is_hidden);
        if self.refused || self.changes {
            self.code = Some(problem.code.clone());
            self.invocation = self.invocation.or(problem.invocation);
        }
    }

    /// Records the call with its answer. For a call that changes something, waits until the entry is written.
    pub(super) async fn answered(mut self, answer: &Answered) {
        // From here on `drop` must not record the call a second time.
        self.is_recorded = true;
        if !self.changes && !self.refused {
            return;
        }
        // A request that was rejected has no record, and its answer names no run.
        let is_in_record = self.is_in_record.get() && answer.headers().contains_key(INVOCATION);
        if is_in_record && !self.backend.audit.tells_runs() {
            return;
        }
        self.is_in_record.set(is_in_record);
        // A run that the call has started has its id only now.
        let started = || InvocationId::parse(answer.headers().get(INVOCATION)?.to_str().ok()?);
        self.invocation = self.invocation.or_else(started);
        let entry = self.entry(Some(answer.status().as_u16()));
        if let Some(written) = self.backend.audit.record(entry) {
            written.await;
        }
    }

    fn entry(&mut self, status: Option<u16>) -> AuditedCalls {
        let took = clock::monotonic().saturating_duration_since(self.begun);
        AuditedCalls {
            at_ms: self.at_ms,
            uid: self.peer.uid,
            pid: self.peer.pid,
            exe: self.peer.exe.clone(),
            verb: self.verb,
            function: self.function.take(),
            invocation: self.invocation,
            status,
            code: self.code.take(),
            refused: self.refused,
            duration_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            count: 1,
            is_in_record: self.is_in_record.get(),
        }
    }
}

impl Drop for Auditing<'_> {
    fn drop(&mut self) {
        // The record of a run has its caller also if the caller has left.
        let is_in_record = self.is_in_record.get() && !self.backend.audit.tells_runs();
        if !self.is_recorded && !is_in_record && (self.changes || self.refused) {
            let entry = self.entry(None);
            drop(self.backend.audit.record(entry)); // the caller has left
        }
    }
}
