//! All routes of the API in one table: method, path, what the route is about, required role and handler. Each verb has its
//! own file.
//!
//! `find` decides here, for all routes, whether a caller's role is great enough for the function, the
//! invocation or the node that a route is about. A list has to be reduced to what its caller may view; a test asks
//! every route of the table as a caller who may view one function only.
//!
//! Files:
//! - `audit`: `GET /v1/audit`, and the entry that each call makes
//! - `backup`: `GET /v1/backup[?of=state]`
//! - `build`: `POST /v1/functions/F/build`
//! - `cancel`: `POST /v1/invocations/ID/cancel`
//! - `config`: `GET /v1/config`
//! - `dead_letters`: `GET /v1/dead-letters[/ID]`, `POST /v1/dead-letters/ID/redrive`, `DELETE /v1/dead-letters/ID`
//! - `deploy`: `PUT /v1/functions/F[?dry_run=1]` and `DELETE /v1/functions/F`
//! - `drain`: `POST /v1/drain[?wait=30s]`, `DELETE /v1/drain`
//! - `enable`: `POST /v1/functions/F/enable` and `disable`
//! - `events`: `POST /v1/events`, `POST /publish`
//! - `find`: finds the route of a request
//! - `functions`: `GET /v1/functions[?label=k=v]` and `GET /v1/functions/F`, both with `watch=1` as a stream of
//!   changes
//! - `healthz`: `GET /healthz`
//! - `invocations`: `GET /v1/invocations` with its filters and `GET /v1/invocations/ID[?wait=30s]`
//! - `invoke`: `POST /v1/functions/F/invoke` runs a function and answers with the result; `POST
//!   /v1/functions/F/invocations` queues a run; any method of `/v1/functions/F/http/PATH` runs the function with that
//!   request
//! - `log_level`: `GET /v1/log-level`, `POST /v1/log-level?level=debug[&for=10m]`
//! - `logs`: `GET /v1/invocations/ID/logs` and `GET /v1/logs`
//! - `metrics`: `GET /metrics`
//! - `openapi`: `GET /v1/openapi.json`
//! - `releases`: `GET /v1/functions/F/versions` and `.../versions/V/files`, `POST /v1/functions/F/rollback`, `pin` and
//!   `unpin`
//! - `reload`: `POST /v1/reload`
//! - `replay`: `POST /v1/invocations/ID/replay`
//! - `result`: `GET /v1/invocations/ID/result`
//! - `public`: `GET /v1/routes`, `POST /v1/routes/test`
//! - `runtimes`: `GET /v1/runtimes`
//! - `schedules`: `GET /v1/schedules`, `POST /v1/functions/F/schedules/pause` and `resume`
//! - `sizes`: `GET /v1/sizes`
//! - `state`: `GET /v1/state[/SCOPE]`, `GET`, `PUT` and `DELETE /v1/state/SCOPE/KEY`
//! - `status`: `GET /v1/status`
//! - `stream`: `GET /v1/stream`
//! - `usage`: `GET /v1/usage`
//! - `validate`: `POST /v1/validate`

mod audit;
mod backup;
mod build;
mod cancel;
mod config;
mod dead_letters;
mod deploy;
mod drain;
mod enable;
mod events;
mod find;
mod functions;
mod healthz;
mod invocations;
mod invoke;
mod log_level;
mod logs;
mod metrics;
mod openapi;
mod public;
mod releases;
mod reload;
mod replay;
mod result;
mod runtimes;
mod schedules;
mod sizes;
mod state;
mod status;
mod stream;
mod usage;
mod validate;

use super::call::ControlCall;
use super::granted::FunctionPermissions;
use crate::backend::Backend;
use crate::http::limits::Pace;
use crate::http::request::{IncomingRequest, Unread, discard};
use crate::http::response::{Answered, Refusal, problem};
use crate::peer::Peer;
use audit::Auditing;
pub(super) use audit::refused_at_socket;
use find::{find, permit_invocation, permit_path};
use fnd_core::access::Permissions;
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

macro_rules! route {
    ($method:ident $path:literal $about:ident $role:ident $verb:expr, $run:path) => {
        ControlRoute {
            method: Method::$method,
            path: $path,
            about: RouteAbout::$about,
            role: $role,
            verb: $verb,
            run: |call| Box::pin($run(call)),
        }
    };
}

const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// Verb of the route that reads the audit: reading it makes no entry, so that following it does not fill it.
const AUDIT: &str = "audit";

/// All routes; a test checks that `openapi.json` describes each.
static ROUTES: &[ControlRoute] = &[
    // First, because it is requested most often and the table is searched in order.
    route!(POST "/v1/functions/{function}/invoke" Function OPERATOR "invoke", invoke::run),
    route!(GET "/healthz" Node None "health", healthz::answer),
    route!(GET "/v1/openapi.json" List VIEWER "openapi", openapi::answer),
    route!(GET "/v1/status" List VIEWER "status", status::answer),
    route!(GET "/v1/functions" List VIEWER "list", functions::list),
    route!(GET "/v1/functions/{function}" Function VIEWER "show", functions::show),
    route!(PUT "/v1/functions/{function}" Function ADMIN "deploy", deploy::put),
    route!(DELETE "/v1/functions/{function}" Function ADMIN "remove", deploy::delete),
    route!(POST "/v1/functions/{function}/invocations" Function OPERATOR "queue", invoke::queue),
    route!(GET "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(HEAD "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(POST "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(PUT "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(PATCH "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(DELETE "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(OPTIONS "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", invoke::request),
    route!(POST "/v1/functions/{function}/enable" Function OPERATOR "enable", enable::enable),
    route!(POST "/v1/functions/{function}/disable" Function OPERATOR "disable", enable::disable),
    route!(GET "/v1/functions/{function}/versions" Function VIEWER "releases", releases::list),
    route!(GET "/v1/functions/{function}/versions/{version}/files" Function OPERATOR "diff", releases::files),
    route!(POST "/v1/functions/{function}/rollback" Function OPERATOR "rollback", releases::rollback),
    route!(POST "/v1/functions/{function}/pin" Function OPERATOR "pin", releases::pin),
    route!(POST "/v1/functions/{function}/build" Function OPERATOR "build", build::answer),
    route!(POST "/v1/functions/{function}/unpin" Function OPERATOR "unpin", releases::unpin),
    route!(POST "/v1/functions/{function}/canary" Function OPERATOR "canary", releases::canary),
    route!(DELETE "/v1/functions/{function}/canary" Function OPERATOR "stop-canary", releases::stop_canary),
    route!(POST "/v1/functions/{function}/promote" Function OPERATOR "promote", releases::promote),
    route!(POST "/v1/events" List OPERATOR "emit", events::publish),
    route!(POST "/publish" List OPERATOR "emit", events::publish),
    route!(POST "/v1/functions/{function}/schedules/pause" Function OPERATOR "pause", schedules::pause),
    route!(POST "/v1/functions/{function}/schedules/resume" Function OPERATOR "resume", schedules::resume),
    route!(GET "/v1/invocations" List VIEWER "history", invocations::list),
    route!(GET "/v1/invocations/{id}" Invocation VIEWER "show-run", invocations::show),
    route!(GET "/v1/invocations/{id}/result" Invocation VIEWER "result", result::answer),
    route!(GET "/v1/invocations/{id}/logs" Invocation VIEWER "logs", logs::of_invocation),
    route!(POST "/v1/invocations/{id}/cancel" Invocation OPERATOR "cancel", cancel::answer),
    route!(POST "/v1/invocations/{id}/replay" Invocation OPERATOR "replay", replay::answer),
    route!(GET "/v1/dead-letters" List VIEWER "dead-letters", dead_letters::list),
    route!(GET "/v1/dead-letters/{id}" Invocation VIEWER "dead-letter", dead_letters::show),
    route!(POST "/v1/dead-letters/{id}/redrive" Invocation OPERATOR "redrive", dead_letters::redrive),
    route!(DELETE "/v1/dead-letters/{id}" Invocation OPERATOR "drop", dead_letters::discard),
    route!(GET "/v1/audit" Node ADMIN AUDIT, audit::list),
    route!(GET "/v1/backup" Node ADMIN "backup", backup::answer),
    route!(GET "/v1/log-level" Node VIEWER "log-level", log_level::show),
    route!(POST "/v1/log-level" Node ADMIN "set-log-level", log_level::set),
    route!(GET "/v1/logs" List VIEWER "logs", logs::of_all),
    route!(GET "/v1/stream" List VIEWER "events", stream::answer),
    route!(GET "/metrics" Node VIEWER "metrics", metrics::answer),
    route!(GET "/v1/routes" List VIEWER "routes", public::list),
    route!(POST "/v1/routes/test" Node OPERATOR "test-route", public::test),
    route!(GET "/v1/runtimes" Node VIEWER "runtimes", runtimes::answer),
    route!(GET "/v1/schedules" List VIEWER "schedules", schedules::list),
    route!(GET "/v1/sizes" Node VIEWER "sizes", sizes::answer),
    route!(GET "/v1/state" Node VIEWER "state", state::scopes),
    route!(GET "/v1/state/{scope}" Node VIEWER "state", state::keys),
    route!(GET "/v1/state/{scope}/{key...}" Node VIEWER "state", state::get),
    route!(PUT "/v1/state/{scope}/{key...}" Node OPERATOR "set-state", state::put),
    route!(DELETE "/v1/state/{scope}/{key...}" Node OPERATOR "delete-state", state::delete),
    route!(GET "/v1/usage" List VIEWER "usage", usage::answer),
    route!(GET "/v1/config" Node VIEWER "config", config::answer),
    route!(POST "/v1/reload" Node ADMIN "reload", reload::answer),
    route!(POST "/v1/validate" Node OPERATOR "validate", validate::answer),
    route!(POST "/v1/drain" Node ADMIN "drain", drain::answer),
    route!(DELETE "/v1/drain" Node ADMIN "end-drain", drain::cancel),
];

/// Routes that a later version will have.
static LATER: &[(Method, &str)] = &[];

/// Returns the answer to a request of a peer with its roles, or of a function with what it may do.
pub(crate) async fn answer(
    backend: Rc<Backend>,
    peer: &Peer,
    (reach, granted): (&Permissions, Option<FunctionPermissions>),
    request: hyper::Request<Incoming>,
) -> Answered {
    let (parts, body) = request.into_parts();
    let mut audit = Auditing::new(&backend, peer);
    let unread = Unread::new(&parts.headers, body);
    let outcome = async {
        let (route, places) = find(&parts.method, parts.uri.path(), reach).inspect_err(|_| {
            // A caller without a role is refused whatever it asks.
            audit.refused = reach.greatest().is_none();
        })?;
        // Before the permissions are checked, so that the record of a refusal names the route and the function.
        audit.is_about(route, &places);
        let permitted = permit_path(route, &places, reach);
        permitted.inspect_err(|_| audit.refused = true)?;
        let call = ControlCall {
            backend: Rc::clone(&backend),
            reach: reach.clone(),
            uid: peer.uid,
            granted: granted.clone(),
            request: IncomingRequest {
                parts,
                body: Rc::clone(&unread),
                pace: Pace::LOCAL,
            },
            places,
        };
        if let Some(granted) = &granted {
            let allowed = granted.check(&call, &route.method, route.path).await;
            allowed.inspect_err(|_| audit.refused = true)?;
        } else if route.about == RouteAbout::Invocation {
            permit_invocation(route, &call, &mut audit).await?;
        }
        (route.run)(call).await
    };
    let response = match outcome.await {
        Ok(response) => response,
        Err(refusal) => {
            audit.is_refused_with(&refusal, reach);
            discard(&unread, Pace::LOCAL).await;
            problem(&refusal)
        }
    };
    audit.answered(&response).await;
    response
}
