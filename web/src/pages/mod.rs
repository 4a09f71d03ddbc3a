//! The pages: each asks fnd, and shows what it answers. A page has no state and checks no right.
//!
//! Files:
//! - `dead_letters`: work that failed for good
//! - `diff`: what differs between two releases of a function
//! - `function`: one function
//! - `function_changes`: what the buttons of a function do
//! - `function_parts`: its releases, schedules, routes and limits
//! - `function_run`: the form "Run" of a function
//! - `functions`: all functions
//! - `history`: the runs of a filter
//! - `node`: the node: its problems, limits and sandbox; the audit
//! - `overview`: what needs a person, what runs, what comes next
//! - `run`: one run, with its output
//! - `run_changes`: what the buttons of a run do
//! - `run_output`: its output, in parts
//! - `run_parts`: its summary, its attempts, its output
//! - `schedules`: the next 24 hours

mod dead_letters;
mod diff;
mod function;
mod function_changes;
mod function_parts;
mod function_run;
mod functions;
mod history;
mod node;
mod overview;
mod run;
mod run_changes;
mod run_output;
mod run_parts;
mod schedules;

use crate::api::{Api, Failure};
use crate::http::{Method, Request, Response};
use crate::parts::output;
use fnd_core::api::LogLine;
use fnd_wire::ids::{FunctionName, InvocationId};
use maud::Markup;

/// Most lines of output that fnd gives at once.
pub(crate) const LINES_MAX: usize = 100_000;

/// Returns the answer to a request.
pub(crate) async fn answer(request: &Request, api: &Api) -> Response {
    find(request, api).await.unwrap_or_else(Response::from)
}

/// Returns a line of output that came alone, for "Follow".
pub(crate) fn line(line: &LogLine) -> Markup {
    output::line(line)
}

async fn find(request: &Request, api: &Api) -> Result<Response, Failure> {
    match (request.method, request.parts().as_slice()) {
        (Method::Get, []) => overview::show(request, api).await,
        (Method::Get, ["functions"]) => functions::show(request, api).await,
        (Method::Get, ["functions", name]) => function::show(request, api, &function_name(name)?).await,
        (Method::Get, ["functions", name, "diff"]) => diff::show(request, api, &function_name(name)?).await,
        // A form with mistakes has this address: a reload shows the function.
        (Method::Get, ["functions", name, "run"]) => Ok(Response::Redirect(function_page(&function_name(name)?))),
        (Method::Post, ["functions", name, "run"]) => function::run(request, api, &function_name(name)?).await,
        (Method::Post, ["functions", name, verb]) => {
            function_changes::change(request, api, &function_name(name)?, verb).await
        }
        (Method::Get, ["runs", id]) => run::show(request, api, run_id(id)?).await,
        (Method::Get, ["runs", id, what]) => run::raw(api, run_id(id)?, what).await,
        (Method::Post, ["runs", id, verb]) => run_changes::change(api, run_id(id)?, verb).await,
        (Method::Get, ["history"]) => history::show(request, api).await,
        (Method::Get, ["dead-letters"]) => dead_letters::show(request, api).await,
        (Method::Get, ["dead-letters", id, "drop"]) => dead_letters::ask(request, api, run_id(id)?).await,
        (Method::Post, ["dead-letters", id, verb]) => dead_letters::change(api, run_id(id)?, verb).await,
        (Method::Get, ["schedules"]) => schedules::show(request, api).await,
        (Method::Post, ["schedules", name, verb]) => schedules::change(api, &function_name(name)?, verb).await,
        (Method::Get, ["node"]) => node::show(request, api).await,
        _ => Err(Failure::no_page()),
    }
}

/// Returns a text of an address as the name of a function. One that is none has no page.
fn function_name(text: &str) -> Result<FunctionName, Failure> {
    FunctionName::new(text).map_err(|_| Failure::no_page())
}

fn run_id(text: &str) -> Result<InvocationId, Failure> {
    InvocationId::parse(text).ok_or_else(Failure::no_page)
}

/// Returns the path of a function in the API.
fn function_path(name: &FunctionName) -> String {
    format!("/v1/functions/{}", fnd_client::client::encode(name.as_str()))
}

/// Returns the address of a function's page.
fn function_page(name: &FunctionName) -> String {
    format!("/functions/{}", fnd_client::client::encode(name.as_str()))
}
