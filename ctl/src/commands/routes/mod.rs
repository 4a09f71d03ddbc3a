//! `fndctl routes`: the routes of the public listener, and what would become of a request.

mod test;

use crate::common::tables::{bad_if, toned};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, TextTable, Tone};
use crate::text::duration;
use fnd_core::api::{RouteList, RouteView};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl routes                                            list all routes\n  \
    fndctl routes test GET http://localhost:8080/hello       which route matches, and whether it runs\n  \
    fndctl routes test POST /hook -H 'X-Gitlab-Token: s' -d '{\"a\": 1}'")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<RoutesVerb>,
}

#[derive(Debug, clap::Subcommand)]
enum RoutesVerb {
    /// Say what would become of a request; nothing runs.
    Test(test::Args),
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if let Some(RoutesVerb::Test(args)) = args.action {
        return test::run(context, args).await;
    }
    let reply = context.client.get("/v1/routes").await?;
    context.out.answer(&reply.body, |list: &RouteList, out| {
        if out.format == Format::Name {
            return out.lines(functions(list));
        }
        if list.routes.is_empty() && list.events.is_none() {
            out.line("no function has a route; `fndctl explain http` shows how to write one")?;
        } else {
            out.table(&table(list))?;
        }
        if list.listen.is_empty() {
            out.remark("the listener is off: set `listen` in `[http]` of fnd.toml, for example \"127.0.0.1:8080\"")
        } else {
            out.remark(&format!("listening on {}", list.listen.join(", ")))
        }
    })
}

/// Returns the functions with routes, each once, in the order of the routes.
fn functions(list: &RouteList) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in list.routes.iter().map(|route| route.function.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn table(list: &RouteList) -> TextTable {
    let heads = [
        "METHOD", "HOST", "PATH", "FUNCTION", "AUTH", "CALLS", "P50", "P99", "LAST",
    ];
    // A status below 500 is no fault of the function.
    let tone = |route: &RouteView| bad_if(route.last_status.is_some_and(|status| status >= 500));
    let mut table = toned(heads, &list.routes, tone, |route| {
        [
            route.methods.join(","),
            route.host.clone().unwrap_or_default(),
            route.path.clone(),
            route.function.to_string(),
            route.auth.join(", "),
            route.calls.to_string(),
            duration(route.p50_ms),
            duration(route.p99_ms),
            route.last_status.map(|status| status.to_string()).unwrap_or_default(),
        ]
    });
    if let Some(events) = &list.events {
        let auth = events.auth.join(", ");
        // A function cannot have the name `(events)`.
        let cells = ["POST", "", &events.path, "(events)", &auth, "", "", "", ""];
        table.row(Tone::Plain, cells.map(str::to_owned));
    }
    // The address of a route is of no use where it is cut.
    table.giving_way(&["P50", "P99", "CALLS", "LAST"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_functions_each_once() {
        let route = |path: &str, function: &str| {
            json!({
                "methods": ["POST"], "host": null, "path": path, "function": function, "auth": [], "async": false,
                "calls": 0, "p50_ms": null, "p99_ms": null, "last_status": null,
            })
        };
        let routes = [route("/a", "b"), route("/b", "web/a"), route("/c", "b")];
        let list = json!({ "listen": [], "routes": routes, "events": { "path": "/events", "auth": [] } });
        let list: RouteList = serde_json::from_value(list).unwrap();
        assert_eq!(functions(&list), ["b", "web/a"]);
    }
}
