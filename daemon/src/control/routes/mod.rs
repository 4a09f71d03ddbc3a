//! All routes of the API in one table: method, path, required role and handler. Each verb has its own file.
//!
//! Files:
//! - `backup`: `GET /v1/backup`
//! - `cancel`: `POST /v1/invocations/ID/cancel`
//! - `config`: `GET /v1/config`
//! - `dead_letters`: `GET /v1/dead-letters[/ID]`, `POST /v1/dead-letters/ID/redrive`, `DELETE /v1/dead-letters/ID`
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
//! - `reload`: `POST /v1/reload`
//! - `replay`: `POST /v1/invocations/ID/replay`
//! - `result`: `GET /v1/invocations/ID/result`
//! - `public`: `GET /v1/routes`, `POST /v1/routes/test`
//! - `runtimes`: `GET /v1/runtimes`
//! - `schedules`: `GET /v1/schedules`, `POST /v1/functions/F/schedules/pause` and `resume`
//! - `sizes`: `GET /v1/sizes`
//! - `status`: `GET /v1/status`
//! - `stream`: `GET /v1/stream`
//! - `usage`: `GET /v1/usage`
//! - `validate`: `POST /v1/validate`

mod backup;
mod cancel;
mod config;
mod dead_letters;
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
mod reload;
mod replay;
mod result;
mod runtimes;
mod schedules;
mod sizes;
mod status;
mod stream;
mod usage;
mod validate;

use super::backend::Backend;
use super::call::Call;
use super::granted::Granted;
use super::peer::Peer;
use crate::http::limits::Pace;
use crate::http::request::{Request, discard, short};
use crate::http::response::{Answered, Refusal, problem};
use find::find;
use fnd_manifest::settings::Role;
use futures_util::future::LocalBoxFuture;
use hyper::Method;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::rc::Rc;

type Handling = LocalBoxFuture<'static, Result<Answered, Refusal>>;

/// A route.
pub(super) struct Route {
    method: Method,
    /// Its path; `{...}` stands for one segment, `{path...}` for the rest of the path, not decoded.
    path: &'static str,
    /// The required role; none: any client that can connect.
    role: Option<Role>,
    run: fn(Call) -> Handling,
}

macro_rules! route {
    ($method:ident $path:literal $role:expr, $run:path) => {
        Route {
            method: Method::$method,
            path: $path,
            role: $role,
            run: |call| Box::pin($run(call)),
        }
    };
}

const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// All routes; a test checks that `openapi.json` describes each.
static ROUTES: &[Route] = &[
    // First, because it is requested most often and the table is searched in order.
    route!(POST "/v1/functions/{function}/invoke" OPERATOR, invoke::run),
    route!(GET "/healthz" None, healthz::answer),
    route!(GET "/v1/openapi.json" VIEWER, openapi::answer),
    route!(GET "/v1/status" VIEWER, status::answer),
    route!(GET "/v1/functions" VIEWER, functions::list),
    route!(GET "/v1/functions/{function}" VIEWER, functions::show),
    route!(POST "/v1/functions/{function}/invocations" OPERATOR, invoke::queue),
    route!(GET "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(HEAD "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(POST "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(PUT "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(PATCH "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(DELETE "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(OPTIONS "/v1/functions/{function}/http/{path...}" OPERATOR, invoke::request),
    route!(POST "/v1/functions/{function}/enable" OPERATOR, enable::enable),
    route!(POST "/v1/functions/{function}/disable" OPERATOR, enable::disable),
    route!(POST "/v1/events" OPERATOR, events::publish),
    route!(POST "/publish" OPERATOR, events::publish),
    route!(POST "/v1/functions/{function}/schedules/pause" OPERATOR, schedules::pause),
    route!(POST "/v1/functions/{function}/schedules/resume" OPERATOR, schedules::resume),
    route!(GET "/v1/invocations" VIEWER, invocations::list),
    route!(GET "/v1/invocations/{id}" VIEWER, invocations::show),
    route!(GET "/v1/invocations/{id}/result" VIEWER, result::answer),
    route!(GET "/v1/invocations/{id}/logs" VIEWER, logs::of_invocation),
    route!(POST "/v1/invocations/{id}/cancel" OPERATOR, cancel::answer),
    route!(POST "/v1/invocations/{id}/replay" OPERATOR, replay::answer),
    route!(GET "/v1/dead-letters" VIEWER, dead_letters::list),
    route!(GET "/v1/dead-letters/{id}" VIEWER, dead_letters::show),
    route!(POST "/v1/dead-letters/{id}/redrive" OPERATOR, dead_letters::redrive),
    route!(DELETE "/v1/dead-letters/{id}" OPERATOR, dead_letters::discard),
    route!(GET "/v1/backup" ADMIN, backup::answer),
    route!(GET "/v1/log-level" VIEWER, log_level::show),
    route!(POST "/v1/log-level" ADMIN, log_level::set),
    route!(GET "/v1/logs" VIEWER, logs::of_all),
    route!(GET "/v1/stream" VIEWER, stream::answer),
    route!(GET "/metrics" VIEWER, metrics::answer),
    route!(GET "/v1/routes" VIEWER, public::list),
    route!(POST "/v1/routes/test" OPERATOR, public::test),
    route!(GET "/v1/runtimes" VIEWER, runtimes::answer),
    route!(GET "/v1/schedules" VIEWER, schedules::list),
    route!(GET "/v1/sizes" VIEWER, sizes::answer),
    route!(GET "/v1/usage" VIEWER, usage::answer),
    route!(GET "/v1/config" VIEWER, config::answer),
    route!(POST "/v1/reload" ADMIN, reload::answer),
    route!(POST "/v1/validate" OPERATOR, validate::answer),
    route!(POST "/v1/drain" ADMIN, drain::answer),
    route!(DELETE "/v1/drain" ADMIN, drain::cancel),
];

/// Routes that a later version will have.
static LATER: &[(Method, &str)] = &[
    (Method::POST, "/v1/functions/{function}/rollback"),
    (Method::GET, "/v1/functions/{function}/versions"),
    (Method::PUT, "/v1/functions/{function}"),
    (Method::DELETE, "/v1/functions/{function}"),
    (Method::GET, "/v1/state/{scope}/{key}"),
    (Method::PUT, "/v1/state/{scope}/{key}"),
    (Method::DELETE, "/v1/state/{scope}/{key}"),
];

/// Returns the answer to a request of a peer with a role, or of a function with what it may do.
pub(crate) async fn answer(
    backend: Rc<dyn Backend>,
    peer: &Peer,
    (role, granted): (Option<Role>, Option<Granted>),
    request: hyper::Request<Incoming>,
) -> Answered {
    let (parts, body) = request.into_parts();
    let mut audit = Audit {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        peer,
        status: None,
    };
    let unread = Rc::new(RefCell::new(Some(body)));
    let outcome = match find(&audit.method, &audit.path, role) {
        Ok((route, places)) => {
            let call = Call {
                backend,
                role,
                granted: granted.clone(),
                request: Request {
                    parts,
                    body: Rc::clone(&unread),
                    pace: Pace::LOCAL,
                },
                places,
            };
            let allowed = match &granted {
                Some(granted) => granted.check(&call, &route.method, route.path).await,
                None => Ok(()),
            };
            match allowed {
                Ok(()) => (route.run)(call).await,
                Err(refusal) => Err(refusal),
            }
        }
        Err(refusal) => Err(refusal),
    };
    let response = match outcome {
        Ok(response) => response,
        Err(refusal) => {
            discard(&unread, Pace::LOCAL).await;
            problem(&refusal)
        }
    };
    audit.status = Some(response.status().as_u16());
    response
}

/// The line of the journal about a request that can change something; written even if its caller left before the
/// answer.
struct Audit<'a> {
    method: Method,
    path: String,
    peer: &'a Peer,
    status: Option<u16>,
}

impl Drop for Audit<'_> {
    fn drop(&mut self) {
        // The journal records who changed something; reads are not logged.
        if self.method == Method::GET {
            return;
        }
        let (method, path, Peer { uid, pid, .. }) = (&self.method, short(&self.path), self.peer);
        match self.status {
            Some(status) => tracing::info!(uid, pid, status, "{method} {path}"),
            None => tracing::info!(
                uid,
                pid,
                "{method} {path}, the caller closed the connection before the answer"
            ),
        }
    }
}
