//! `fndctl routes test`: what would become of a request.

use crate::client::request;
use crate::common::payload::{self, JSON};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, parse};
use fnd_core::api::{CheckView, RouteTest, RouteTestReport, RouteView};
use hyper::Method;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The request is not sent to the listener: no function runs, and no signature is remembered.\n\n\
    Exit code 0: the function runs or is queued; 1: it does not, and the text says why.\n\n\
    Examples:\n  \
    fndctl routes test GET http://localhost:8080/hello\n  \
    fndctl routes test POST http://api.example.com/hook -H 'Authorization: Bearer s3cret' -d @body.json"
)]
pub(super) struct Args {
    /// The method.
    method: String,

    /// A URL with a host, or a path.
    url: String,

    /// A header of the request, `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    headers: Vec<String>,

    /// The body: text, `@FILE`, or `-` for standard input.
    #[arg(short, long)]
    data: Option<String>,

    /// The caller's address.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut headers = Vec::new();
    for header in &args.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| CommandFailure::usage(format!("`-H {header}`: expected `Name: value`")))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let body = args.data.as_deref().map(payload::bytes).transpose()?;
    let body = String::from_utf8(body.unwrap_or_default())
        .map_err(|_| CommandFailure::usage("the body is not UTF-8, which this verb cannot send"))?;
    let test = RouteTest {
        method: args.method,
        url: args.url,
        headers,
        body,
        caller: args.from,
    };
    let body = serde_json::to_vec(&test)
        .map_err(|error| CommandFailure::usage(format!("the request cannot be sent: {error}")))?;
    let json = [("content-type".to_owned(), JSON.to_owned())];
    let request = request(Method::POST, "/v1/routes/test", &json, body.into())?;
    let reply = context.client.send(request).await?;
    // A document is printed as it is, also if this fndctl cannot read it.
    let report = parse::<RouteTestReport>(&reply.body).ok();
    let runs = report.is_none_or(|report| matches!(report.status, None | Some(202)));
    context.out.document(&reply.body, |report: &RouteTestReport, out| {
        if let Some(route) = &report.route {
            out.line(&format!("route: {}", line(route)))?;
        }
        for (name, value) in &report.params {
            out.line(&format!("parameter: {name} = {}", out.printed(value)))?;
        }
        checks(out, "credential", &report.credentials)?;
        checks(out, "when", &report.when)?;
        if let Some(key) = &report.idempotency_key {
            out.line(&format!("idempotency key: {}", out.printed(key)))?;
        }
        let status = report.status.map(|status| format!("{status}: ")).unwrap_or_default();
        out.line(&format!("{status}{}", report.verdict))
    })?;
    Ok(if runs { Exit::Fine } else { Exit::FunctionFailed })
}

/// Returns a route in one line.
fn line(route: &RouteView) -> String {
    let host = route.host.as_deref().unwrap_or_default();
    let methods = route.methods.join(",");
    format!("{methods} {host}{} of `{}`", route.path, route.function)
}

/// Prints what was checked, one on each line.
fn checks(out: &Output, title: &str, checks: &[CheckView]) -> Result<(), CommandFailure> {
    for check in checks {
        let holds = if check.holds { "holds" } else { "does not hold" };
        let detail = out.printed(&check.detail);
        out.wrapped(&format!("{title}: {} {holds}: {detail}", out.printed(&check.what)), 2)?;
    }
    Ok(())
}
