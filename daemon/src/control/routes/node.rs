//! Routes about the node: its health, state and configuration; to drain, to reload, to back up.

use super::functions::hide_values;
use super::{ADMIN, ControlRoute, OPERATOR, VIEWER, changed};
use crate::backend::{Database, Failure, FunctionFilter, ListPart};
use crate::control::call::ControlCall;
use crate::control::condition::has_list;
use crate::control::limits::WAIT_MAX;
use crate::control::refusal::failed;
use crate::exposition::scrape;
use crate::http::response::{
    Answered, Refusal, json, long_json, not_modified, refuse, whole, with_status, with_weak_tag,
};
use crate::http::stream::pieces;
use crate::metrics::MetricsFormat;
use crate::telemetry::level;
use fnd_core::api::problem::Code;
use fnd_core::api::{LogLevel, RuntimeList, SizeList};
use fnd_core::instant;
use fnd_manifest::settings::Role;
use hyper::StatusCode;
use hyper::header::ACCEPT;
use std::time::Duration;

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/healthz" Node None "health", health, None),
    route!(GET "/v1/status" List VIEWER "status", status, Some(&["functions"])),
    route!(GET "/v1/overview" List VIEWER "overview", overview),
    route!(GET "/v1/access" List VIEWER "whoami", access),
    route!(GET "/v1/backup" Node ADMIN "backup", backup, Some(&["of"])),
    route!(GET "/v1/log-level" Node VIEWER "log-level", log_level),
    route!(POST "/v1/log-level" Node ADMIN "set-log-level", set_log_level, Some(&["level", "for"])),
    route!(GET "/metrics" Node VIEWER "metrics", metrics),
    route!(GET "/v1/routes" List VIEWER "routes", routes),
    route!(POST "/v1/routes/test" Node OPERATOR "test-route", test_route),
    route!(GET "/v1/runtimes" Node VIEWER "runtimes", runtimes),
    route!(GET "/v1/sizes" Node VIEWER "sizes", sizes),
    route!(GET "/v1/config" Node VIEWER "config", config),
    route!(POST "/v1/reload" Node ADMIN "reload", reload, Some(&["accept-empty"])),
    route!(POST "/v1/validate" Node OPERATOR "validate", validate),
    route!(POST "/v1/drain" Node ADMIN "drain", drain, Some(&["wait"])),
    route!(DELETE "/v1/drain" Node ADMIN "end-drain", cancel_drain),
];

/// `GET /healthz`: whether functions can run. It needs no role, because it is for monitoring.
pub(super) async fn health(call: ControlCall) -> Result<Answered, Refusal> {
    let health = call.backend.daemon.state.borrow().look().health();
    match health {
        Ok(()) => Ok(whole("text/plain; charset=utf-8", "ok\n")),
        Err(reason) => Err(refuse(Code::Unavailable, reason)),
    }
}

/// `GET /v1/status[?functions=0]`: the node and its functions; with `functions=0` the node alone, whose numbers are kept, so that
/// no list is needed. A caller without a role for the node gets only the functions that it may view.
pub(super) async fn status(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.query.switch_or("functions", true)?;
    let mut node = call.backend.daemon.state.borrow().node_status();
    let query = call.request.parts.uri.query().unwrap_or_default();
    let tag = call.backend.list_tag(query, &call.reach, Some(&node));
    if has_list(&call, &tag)? {
        return Ok(not_modified(&tag));
    }
    // The numbers of a caller without a role for the node are those of its functions, and only the list has them.
    if listed || call.reach.node().is_none() {
        let filter = FunctionFilter {
            reach: call.reach.clone(),
            ..FunctionFilter::default()
        };
        node.functions = call.backend.functions(filter, ListPart::default()).await.functions;
        node = node.reduced(&call.reach);
    }
    if !listed {
        node.functions = Vec::new();
    }
    Ok(with_weak_tag(long_json(node.functions.len(), node).await?, &tag))
}

/// `GET /v1/overview`: what needs a person, what runs, what comes next. It is as quick beside ten thousand functions.
pub(super) async fn overview(call: ControlCall) -> Result<Answered, Refusal> {
    json(&call.backend.overview(&call.reach).await)
}

/// `GET /v1/access`: the caller, and its roles.
pub(super) async fn access(call: ControlCall) -> Result<Answered, Refusal> {
    json(&call.backend.caller(call.caller.uid, &call.reach))
}

/// `GET /v1/config`: the effective configuration. It never contains secrets; it contains values of `[env]` only for an
/// admin.
pub(super) async fn config(call: ControlCall) -> Result<Answered, Refusal> {
    let mut config =
        serde_json::to_value(&call.backend.daemon.state.borrow().node.settings.settings).unwrap_or_default();
    if call.reach.node() < Some(Role::Admin) {
        hide_values(&mut config);
    }
    json(&config)
}

/// `GET /v1/runtimes`: the runtimes that fnd knows.
pub(super) async fn runtimes(call: ControlCall) -> Result<Answered, Refusal> {
    json(&RuntimeList {
        runtimes: call.backend.runtimes(),
    })
}

/// `GET /v1/sizes`: the presets of limits.
pub(super) async fn sizes(call: ControlCall) -> Result<Answered, Refusal> {
    json(&SizeList {
        sizes: call.backend.sizes(),
    })
}

/// `GET /metrics`: all metrics, in the form that the request accepts.
pub(super) async fn metrics(call: ControlCall) -> Result<Answered, Refusal> {
    let form = MetricsFormat::accepted(call.request.header(&ACCEPT)?.unwrap_or(""));
    Ok(whole(form.content_type(), scrape(&call.backend.daemon, form).await))
}

// `GET /v1/log-level`, `POST /v1/log-level?level=debug[&for=10m]`: the level from which fnd logs its own messages.

/// Longest time for which a temporary level can be set.
const FOR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) async fn set_log_level(call: ControlCall) -> Result<Answered, Refusal> {
    let time = call.query.duration("for", FOR_MAX)?;
    let any = |text: &str| Some(text.to_owned());
    let text = call
        .query
        .required(("level", "debug"), "a level such as `debug`", any)?;
    let set = call.backend.set_log_level(&text, time);
    set.map_err(|why| refuse(Code::BadRequest, why))?;
    log_level(call).await
}

pub(super) async fn log_level(_: ControlCall) -> Result<Answered, Refusal> {
    let (level, until) = level::now();
    json(&LogLevel {
        level,
        until: until.map(instant::text),
    })
}

/// `GET /v1/backup[?of=state]`: a copy of a database in its present state, in the form of SQLite; `fndctl backup` adds
/// the files.
pub(super) async fn backup(call: ControlCall) -> Result<Answered, Refusal> {
    let of = call.query.get("of", "`history` or `state`", |text| match text {
        "history" => Some(Database::Ledger),
        "state" => Some(Database::State),
        _ => None,
    })?;
    let of = of.unwrap_or(Database::Ledger);
    let copied = call.backend.backup(of).await;
    let (size, bytes) = copied.map_err(|failure| not_copied(of, &failure))?;
    Ok(pieces("application/vnd.sqlite3", size, bytes))
}

/// Returns the refusal with its private reason, because the caller may read the whole history anyway, and has to make room on the
/// disk.
fn not_copied(of: Database, failure: &Failure) -> Refusal {
    let what = match of {
        Database::Ledger => "the ledger",
        Database::State => "the state of functions",
    };
    tracing::error!("failed to copy {what}: {failure}");
    refuse(Code::Internal, format!("failed to copy {what}: {failure}"))
}

/// `POST /v1/reload`: reads configuration and functions again; answers when every difference is applied or refused, or names those
/// that are still being tried. With `?accept-empty=1` an empty functions directory is accepted as empty.
pub(super) async fn reload(call: ControlCall) -> Result<Answered, Refusal> {
    let accept_empty = call.query.switch("accept-empty")?;
    json(&call.backend.reload(accept_empty).await.map_err(failed("reload"))?)
}

/// `POST /v1/validate`: checks a file without running or keeping it.
pub(super) async fn validate(call: ControlCall) -> Result<Answered, Refusal> {
    let request = call.read_json(r#"{"name": ..., "content": ...}"#).await?;
    json(&call.backend.validate(request).await.map_err(failed("validate"))?)
}

/// `POST /v1/drain[?wait=30s]`: accepts no new work from now on; answers 200 when nothing runs any more, 202 before
/// that. `DELETE /v1/drain`: accepts work again.
pub(super) async fn drain(call: ControlCall) -> Result<Answered, Refusal> {
    let wait = call.query.duration("wait", WAIT_MAX)?.unwrap_or(Duration::ZERO);
    let drained = call.backend.drain();
    // A wait of zero looks at the drain once, so a node on which nothing runs is `drained` at once.
    match tokio::time::timeout(wait, drained).await {
        Ok(Ok(false)) => changed("running"),
        // A dropped sender means that the drain is over, or that the daemon is stopping, which it does when it is
        // drained.
        Ok(Ok(true) | Err(_)) => changed("drained"),
        Err(_) => Ok(with_status(changed("draining")?, StatusCode::ACCEPTED)),
    }
}

/// Cancels a drain; nothing changes if there is none.
pub(super) async fn cancel_drain(call: ControlCall) -> Result<Answered, Refusal> {
    if call.backend.cancel_drain() {
        changed("running")
    } else {
        let why = "fnd is stopping: this drain cannot be cancelled";
        Err(refuse(Code::Unavailable, why))
    }
}

/// `GET /v1/routes`: the routes of the public listener; `POST /v1/routes/test`: what would become of a request.
pub(super) async fn routes(call: ControlCall) -> Result<Answered, Refusal> {
    let mut list = call.backend.route_list();
    list.routes.retain(|route| call.reach.views(&route.function));
    if !call.reach.views_any(None) {
        list.events = None;
    }
    long_json(list.routes.len(), list).await
}

pub(super) async fn test_route(call: ControlCall) -> Result<Answered, Refusal> {
    let request = call.read_json(r#"{"method": ..., "url": ...}"#).await?;
    let report = call.backend.try_request(request).await;
    json(&report.map_err(|wrong| refuse(Code::BadRequest, wrong))?)
}
