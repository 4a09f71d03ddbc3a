//! `fndctl invoke F`: runs it and prints its result, or queues it.

use crate::client::request;
use crate::common::candidates;
use crate::common::input::InputArgument;
use crate::common::payload::{JSON, PayloadArgument};
use crate::common::results::{follow, print_status, refuse_failed};
use crate::common::waiting::reporting;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::Output;
use crate::text::span;
use fnd_core::api::Queued;
use hyper::Method;
use hyper::body::Bytes;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl invoke hello -d '{\"name\": \"Ada\"}'      sent as JSON, since it parses\n  \
    fndctl invoke hello -d 'just text'               sent as text\n  \
    fndctl invoke hello --set name=Ada --set n:=3    fields of its input\n  \
    fndctl invoke hello --ask                        ask for each field\n  \
    fndctl invoke resize -d @photo.jpg > small.jpg\n  \
    jq .order orders.json | fndctl invoke ship\n  \
    fndctl invoke backup --async                  print the id and do not wait\n  \
    fndctl invoke backup --in 10m\n  \
    fndctl invoke backup --follow                 show its output while it runs")]
pub(crate) struct Args {
    /// Name of the function.
    #[arg(add = candidates::functions())]
    function: String,

    /// Words in the place where other tools have the payload; they are refused with the right command line.
    #[arg(hide = true)]
    pub(crate) words: Vec<String>,

    #[command(flatten)]
    payload: PayloadArgument,

    #[command(flatten)]
    input: InputArgument,

    /// Send a header with the request, such as `content-type:text/csv` or `idempotency-key:42`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE")]
    headers: Vec<String>,

    /// Queue the run, print its id and do not wait.
    #[arg(long = "async", conflicts_with = "follow")]
    queue: bool,

    /// Queue the run; it starts at this instant or later.
    #[arg(long, value_name = "RFC3339", conflicts_with_all = ["in_", "follow"])]
    at: Option<String>,

    /// Queue the run; it starts after this time, such as `90s`, `10m` or `2h`, or later.
    #[arg(long = "in", id = "in_", value_name = "DURATION", conflicts_with = "follow")]
    in_: Option<String>,

    /// Queue the run with this priority, -100 to 100; runs with a higher priority start first [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i8).range(-100..=100), allow_hyphen_values = true, conflicts_with = "follow")]
    priority: Option<i8>,

    /// End each attempt after this time, such as `500ms` or `5s`; at most the function's own timeout.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,

    /// Wait until the status file shows the end, too; without this it may be written up to 50 ms after the answer.
    #[arg(long, conflicts_with_all = ["queue", "at", "in_", "priority", "follow"])]
    status_sync: bool,

    /// Show the function's output on standard error while it runs.
    #[arg(long)]
    follow: bool,
}

/// # Errors
/// The function did not succeed, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let path = function_path(&args.function)?;
    let made = args.input.read(context, &args.function).await?;
    let (headers, body) = headers_and_body(context, &args, made)?;
    // A priority and a later start make sense only for a run that waits in the queue.
    let queue = args.queue || args.at.is_some() || args.in_.is_some() || args.priority.is_some();
    let verb = if queue || args.follow { "invocations" } else { "invoke" };
    let query = if args.status_sync { "?status=sync" } else { "" };
    let request = request(Method::POST, &format!("{path}/{verb}{query}"), &headers, body)?;
    if verb == "invoke" {
        context.out.progress(&format!("running {} ...", args.function));
    }
    if args.follow {
        return reporting(context, &args.function, follow(context, request, str::to_owned)).await;
    }
    let reply = context.client.send(request);
    if verb == "invoke" {
        let reply = reporting(context, &args.function, reply).await?;
        // The answer of a function that failed has a body, too, so it is printed before the failure.
        context.out.result(&reply.body)?;
        refuse_failed(&reply)?;
        print_status(context, Some(reply.status));
        return Ok(Exit::Fine);
    }
    let print = |queued: &Queued, out: &Output| out.line(&queued.id.to_string());
    context.out.answer(&reply.await?.body, print)
}

/// Returns the headers and the body of the request. `made` is a payload that was made of fields.
fn headers_and_body(
    context: &Context,
    args: &Args,
    made: Option<Vec<u8>>,
) -> Result<(Vec<(String, String)>, Bytes), CommandFailure> {
    // A person who calls by hand has perhaps just saved the file.
    let mut headers = vec![("Fnd-Saved".to_owned(), "1".to_owned())];
    for header in &args.headers {
        let parts = header.split_once(':').filter(|(name, _)| !name.trim().is_empty());
        let (name, value) =
            parts.ok_or_else(|| CommandFailure::usage(format!("`-H {header}`: expected NAME:VALUE")))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(timeout) = &args.timeout {
        // Only checks the duration: fnd gets the text as it was typed.
        span("--timeout", timeout)?;
        headers.push(("Fnd-Timeout".to_owned(), timeout.clone()));
    }
    if let Some(priority) = args.priority {
        headers.push(("Fnd-Priority".to_owned(), priority.to_string()));
    }
    if let Some(at) = &args.at {
        let at = at.parse::<Timestamp>();
        let at = at.map_err(|_| CommandFailure::usage("--at: expected an instant such as `2026-11-21T08:00:00Z`"))?;
        headers.push(("Fnd-At".to_owned(), at.to_string()));
    }
    if let Some(after) = &args.in_ {
        let at = Timestamp::now().checked_add(span("--in", after)?);
        let at = at.map_err(|_| CommandFailure::usage(format!("--in {after}: too far in the future")))?;
        headers.push(("Fnd-At".to_owned(), at.to_string()));
    }
    // A media type that the person names wins over the one that the payload looks like.
    let is_media_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    let named = headers.iter().any(is_media_type);
    let payload = match made {
        Some(made) => Some((made, JSON)),
        None => args.payload.read(context, named)?,
    };
    let Some((bytes, media_type)) = payload else {
        return Ok((headers, Bytes::new()));
    };
    if !named {
        headers.push(("Content-Type".to_owned(), media_type.to_owned()));
    }
    Ok((headers, bytes.into()))
}
