//! The routes of the API. Each resource has a file with its table (method, path, what the route is about, required role, verb,
//! handler) and its handlers.
//!
//! `find` decides for all routes whether a caller's role is great enough for the function, the invocation or the node that a
//! route is about. The handler of a list has to leave out what its caller may not view; a test asks every route of the tables as
//! a caller who may view one function only.
//!
//! Files:
//! - `audit`: `GET /v1/audit`, and the entry that each call makes
//! - `deploy`: uploads and removals of functions
//! - `find`: finds the route of a request
//! - `functions`: functions: lists and details, enabling, builds, usage, schedules
//! - `invocations`: invocations: history, results, dead letters; to cancel and to run again
//! - `invoke`: requests to run a function, and events
//! - `nats`: the connection to NATS; to end claims, and to publish messages
//! - `node`: the node: health, state, configuration; to drain, to reload, to back up
//! - `openapi`: `GET /v1/openapi.json`
//! - `releases`: releases of functions
//! - `state`: the values that functions share
//! - `streams`: output and events

/// Makes a route of a table. Behind the handler come its further arguments in parentheses; then the parameters that the query may
/// have, if there are any.
macro_rules! route {
    ($method:ident $path:literal $about:ident $role:ident $verb:expr, $run:ident $(($($argument:expr),+))?) => {
        route!($method $path $about $role $verb, $run $(($($argument),+))?, Some(&[]))
    };
    ($method:ident $path:literal $about:ident $role:ident $verb:expr, $run:ident $(($($argument:expr),+))?, $query:expr) => {
        $crate::control::routes::ControlRoute {
            method: hyper::Method::$method,
            path: $path,
            about: $crate::control::routes::RouteAbout::$about,
            role: $role,
            verb: $verb,
            query: $query,
            run: |call| Box::pin($run(call $($(, $argument)+)?)),
        }
    };
}

mod audit;
mod deploy;
mod find;
mod functions;
mod invocations;
mod invoke;
mod nats;
mod node;
mod openapi;
mod releases;
mod state;
mod streams;

use super::call::{ControlCall, RequestingFunction};
use crate::backend::Backend;
use crate::http::limits::Pace;
use crate::http::query::Query;
use crate::http::request::{IncomingRequest, Unread, discard};
use crate::http::response::{Answered, Refusal, json, problem};
use crate::peer::Peer;
use audit::Auditing;
pub(super) use audit::refused_at_socket;
use find::{find, permit_invocation, permit_path};
use fnd_core::access::Permissions;
use fnd_core::api::Changed;
use fnd_core::records::Caller;
use fnd_manifest::settings::Role;
use futures_util::future::LocalBoxFuture;
use hyper::Method;
use hyper::body::Incoming;
use std::rc::Rc;

type Handling = LocalBoxFuture<'static, Result<Answered, Refusal>>;

pub(super) struct ControlRoute {
    method: Method,
    /// Its path; `{...}` stands for one segment, `{path...}` for the rest of the path, not decoded.
    path: &'static str,
    /// The thing that the caller needs the role for.
    about: RouteAbout,
    /// The required role; none: any client that can connect.
    role: Option<Role>,
    /// Its short name in the audit: the verb of `fndctl` where there is one.
    verb: &'static str,
    /// The parameters that its query may have; none: its handler reads the query itself.
    query: Option<&'static [&'static str]>,
    run: fn(ControlCall) -> Handling,
}

/// The thing that a route is about, for which its caller needs the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteAbout {
    /// The function in the path.
    Function,
    /// The function of the invocation in the path.
    Invocation,
    /// Functions: a role for some of them is enough. The handler leaves out those that the caller may not view.
    List,
    /// The node: an entry with `functions` gives no role for it.
    Node,
}

const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// Verb of the route that reads the audit. A read makes no entry: otherwise a client that follows the audit would fill it.
const AUDIT: &str = "audit";

/// Returns all routes; a test checks that `openapi.json` describes each.
fn routes() -> impl Iterator<Item = &'static ControlRoute> {
    let tables = [
        // First, because its first route is requested most often.
        invoke::ROUTES,
        functions::ROUTES,
        deploy::ROUTES,
        releases::ROUTES,
        invocations::ROUTES,
        nats::ROUTES,
        node::ROUTES,
        audit::ROUTES,
        streams::ROUTES,
        state::ROUTES,
        openapi::ROUTES,
    ];
    tables.into_iter().flatten()
}

/// Returns the answer to a request of a peer with its roles, or of a function with what it may do.
pub(crate) async fn answer(
    backend: Rc<Backend>,
    peer: &Peer,
    (reach, granted): (&Permissions, Option<RequestingFunction>),
    request: hyper::Request<Incoming>,
) -> Answered {
    let (parts, body) = request.into_parts();
    let mut audit = Auditing::new(&backend, peer);
    let unread = Unread::new(&parts.headers, body);
    let outcome = async {
        let (route, places) = find(&parts.method, parts.uri.path(), reach).inspect_err(|_| {
            // A caller without a role is refused on every path, also where there is no route.
            audit.refused = reach.greatest().is_none();
        })?;
        // Before the permissions are checked, so that the record of a refusal names the route and the function.
        audit.is_about(route, &places);
        let permitted = permit_path(route, audit.function.as_ref(), reach);
        permitted.inspect_err(|_| audit.refused = true)?;
        let mut call = ControlCall {
            backend: Rc::clone(&backend),
            reach: reach.clone(),
            caller: Caller {
                uid: peer.uid,
                pid: peer.pid,
                exe: peer.exe.clone(),
                verb: route.verb,
            },
            is_in_record: Rc::clone(&audit.is_in_record),
            granted: granted.clone(),
            request: IncomingRequest {
                parts,
                body: Rc::clone(&unread),
                pace: Pace::LOCAL,
            },
            query: Query::default(),
            places,
        };
        // The manifest of a function decides in place of roles, also about invocations.
        if let Some(granted) = &granted {
            let allowed = granted.check(&call, &route.method, route.path).await;
            allowed.inspect_err(|_| audit.refused = true)?;
        } else if route.about == RouteAbout::Invocation {
            permit_invocation(route, &call, &mut audit).await?;
        }
        if let Some(known) = route.query {
            call.query = call.request.query(known)?;
        }
        (route.run)(call).await
    };
    let response = match outcome.await {
        Ok(response) => response,
        Err(refusal) => {
            audit.is_refused_with(&refusal, reach);
            // A socket that is closed with unread bytes is reset, and the sender could lose the refusal.
            discard(&unread, Pace::LOCAL).await;
            problem(&refusal)
        }
    };
    // The answer to a change waits here until its entry is stored, for a second at most.
    audit.answered(&response).await;
    response
}

/// Returns the answer to a change: the state of its object from now on.
fn changed(state: &str) -> Result<Answered, Refusal> {
    json(&Changed {
        state: state.to_owned(),
    })
}
