//! Resolves `[http_server]` (how a program that serves HTTP is started and reached) and `[service]` (what is kept
//! running).

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::function::{HttpServer, Listen, Mode, PoolKeys, ServiceKeys};
use crate::schema::pick::Pick;
use crate::schema::tree::{TomlTable, find};
use fnd_wire::plan::stop_signal_number;

/// Returns the `[http_server]` table; absent in other modes, where a written table is an error.
pub(super) fn http_server(
    pick: Pick<'_>,
    own: &TomlTable,
    (subject, pool): (&ResolvedSubject<'_>, &PoolKeys),
    report: &mut FunctionProblems<'_>,
) -> Option<HttpServer> {
    if !is_of(Mode::Http, "http_server", own, subject, report) {
        return None;
    }
    let mut impossible = |path: &str, message: String, help: &str| {
        report.impossible(find(own, path).map(|node| &node.at), message, help);
    };
    let port: Option<u16> = pick.get("http_server.port");
    if pick.written("http_server.listen").is_some() && port.is_some() {
        let message = "`http_server.port` and `http_server.listen` exclude each other".to_owned();
        impossible("http_server.port", message, "remove one of the two");
    }
    // Without a `max` of its own, the function has been given one worker.
    let several = pool.max > 1 && find(own, "pool.max").is_some();
    if port.is_some() && (several || pool.isolation == crate::function::Isolation::Invocation) {
        let path = if several { "pool.max" } else { "pool.isolation" };
        let message = "`http_server.port` is a single port, on which only one worker can listen".to_owned();
        let help = "let the program listen on `$PORT` or `$FND_SOCKET_PATH`, which differ for each worker, or set `pool.max` to 1";
        impossible(path, message, help);
    }
    let asked = ["command", "port", "listen"].map(|name| format!("http_server.{name}"));
    let asked = asked.iter().find(|path| find(own, path).is_some());
    if let Some(path) = asked.filter(|_| subject.serves) {
        let message =
            format!("`{path}` has no effect on `export default {{ fetch }}`, for which fnd starts the server");
        impossible(path, message, "remove it, or call `Deno.serve` in the code");
    }
    let server: HttpServer = pick.get("http_server");
    let listen = match port {
        _ if subject.serves => Listen::Told,
        Some(port) => Listen::Port(port),
        None => server.listen,
    };
    Some(HttpServer { listen, ..server })
}

/// Returns the `[service]` table; absent in other modes, where a written table is an error.
pub(super) fn service(
    pick: Pick<'_>,
    own: &TomlTable,
    subject: &ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) -> Option<ServiceKeys> {
    if !is_of(Mode::Service, "service", own, subject, report) {
        return None;
    }
    // Keys that produce invocations, which a service does not have.
    for path in [
        "queue",
        "pool",
        "data",
        "context",
        "limits.deadline",
        "retry.retries",
        "retry.on",
        "retry.not_on_exit",
    ] {
        if let Some(node) = find(own, path) {
            let message = format!("`{path}` has no effect on a service, which is kept running and never invoked");
            report.impossible(Some(&node.at), message, "remove it");
        }
    }
    let service: ServiceKeys = pick.get("service");
    let ready = service.ready.as_ref().and_then(|written| written.strip_prefix("path:"));
    let ready = ready.filter(|path| path.starts_with('/')).map(str::to_owned);
    if let Some(written) = service.ready.filter(|written| ready.is_none() && written != "none") {
        let message = format!("`service.ready`: expected `none` or `path:/...`, found `{written}`");
        let help = "write `\"path:/healthz\"`";
        report.error(pick.at("service.ready"), "bad-value", message, help);
    }
    // Processes get SIGTERM without the key, too.
    let is_other = |name: &String| stop_signal_number(name) != stop_signal_number("TERM");
    let stop_signal = service.stop_signal.filter(is_other);
    Some(ServiceKeys {
        ready,
        stop_signal,
        ..service
    })
}

/// Says whether a function has the mode of a table. If not, a written table is reported as an error.
fn is_of(
    mode: Mode,
    table: &str,
    own: &TomlTable,
    subject: &ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) -> bool {
    if subject.mode != mode
        && let Some(node) = own.get(table)
    {
        let message = format!("`[{table}]` has no effect with `mode = \"{}\"`", subject.mode.as_str());
        report.impossible(Some(&node.at), message, "remove one of the two");
    }
    subject.mode == mode
}

/// Refuses `[poll]`: neither an HTTP response nor the end of a service can ask for a poll.
pub(super) fn refuse_poll(own: &TomlTable, report: &mut FunctionProblems<'_>) {
    if let Some(node) = own.get("poll") {
        let message = "`[poll]` is only for scripts and handlers: no other function can ask to be executed again";
        report.impossible(Some(&node.at), message, "remove it");
    }
}
