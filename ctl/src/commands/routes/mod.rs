//! `fndctl routes`: the routes of the public listener, and what would become of a request.

mod test;

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, TextTable, Tone};
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
        if list.routes.is_empty() && list.events.is_none() {
            out.line("no function has a route; `fndctl explain http` shows how to write one")?;
        } else {
            out.table(&table(list))?;
        }
        if list.listen.is_empty() {
            out.remark("the listener is off: set `listen` in `[http]` of fnd.toml, for example \"127.0.0.1:8080\"")?;
        } else {
            out.remark(&format!("listening on {}", list.listen.join(", ")))?;
        }
        Ok(())
    })
}

fn table(list: &RouteList) -> TextTable {
    let mut table = TextTable::new(&[
        "METHOD", "HOST", "PATH", "FUNCTION", "AUTH", "CALLS", "P50", "P99", "LAST",
    ]);
    for route in &list.routes {
        // A status below 500 is no fault of the function.
        let tone = match route.last_status {
            Some(500..) => Tone::Bad,
            _ => Tone::Plain,
        };
        table.row(
            tone,
            [
                route.methods.join(","),
                route.host.clone().unwrap_or_default(),
                route.path.clone(),
                route.function.to_string(),
                route.auth.join(", "),
                route.calls.to_string(),
                crate::text::duration(route.p50_ms),
                crate::text::duration(route.p99_ms),
                route.last_status.map(|status| status.to_string()).unwrap_or_default(),
            ],
        );
    }
    if let Some(events) = &list.events {
        let nothing = String::new;
        table.row(
            Tone::Plain,
            [
                "POST".to_owned(),
                nothing(),
                events.path.clone(),
                // A function cannot have this name.
                "(events)".to_owned(),
                events.auth.join(", "),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
            ],
        );
    }
    table
}

/// Returns a route in one line.
fn line(route: &RouteView) -> String {
    let host = route.host.as_deref().unwrap_or_default();
    format!(
        "{} {host}{} of `{}`",
        route.methods.join(","),
        route.path,
        route.function
    )
}

/// Prints what was checked, one on each line.
fn checks(out: &Output, title: &str, checks: &[fnd_core::api::CheckView]) -> Result<(), CommandFailure> {
    for check in checks {
        let holds = if check.holds { "holds" } else { "does not hold" };
        let detail = out.printed(&check.detail);
        out.wrapped(&format!("{title}: {} {holds}: {detail}", out.printed(&check.what)), 2)?;
    }
    Ok(())
}
