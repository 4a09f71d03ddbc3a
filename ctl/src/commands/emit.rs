//! `fndctl emit TYPE`: sends an event to the functions that subscribe to it. `fndctl emit --nats SUBJECT` publishes a message to the
//! servers of NATS.

use crate::client::{Reply, request};
use crate::common::payload::PayloadArgument;
use crate::common::random;
use crate::common::tables::table;
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use crate::output::TextTable;
use fnd_core::api::{EventAccepted, PublishedMessage};
use hyper::Method;
use hyper::body::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Source of an event if the command line names none.
const SOURCE: &str = "fndctl";

/// Characters that are encoded as `%XX` in a header of an event (HTTP Protocol Binding for CloudEvents, section
/// 3.1.3.2).
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A function subscribes with `[[event]]` in its manifest: `type = \"order.*\"`. Every function that matches gets a \
    run of its own, which is queued and on the disk when this command ends. An event with the source and the id of an earlier \
    one is the same event and runs nothing. Where events of all nodes go through a stream (`events.nats.stream` in fnd.toml), it ends when the \
    stream has the event.\n\nWith `--nats` a message is published in place of an event. The command ends when a stream has stored it, and says where. \
    It needs the role operator of the node.\n\nExamples:\n  \
    fndctl emit order.created -d '{\"order\": 7}'\n  \
    fndctl emit order.created -d @order.json --source shop --subject orders/7\n  \
    fndctl emit nightly --id \"nightly-$(date +%F)\"        once a day, however often it is sent\n  \
    fndctl emit order.created -o name | xargs fndctl wait\n  \
    fndctl emit --nats orders.new -d @order.json        to the nodes whose functions have `[[nats]]`"
)]
pub(crate) struct Args {
    /// Type of the event, such as `order.created`.
    #[arg(value_name = "TYPE", required_unless_present = "nats", conflicts_with = "nats")]
    kind: Option<String>,

    /// Publish a message to this subject of NATS, and no event.
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["source", "subject", "attributes"])]
    nats: Option<String>,

    #[command(flatten)]
    payload: PayloadArgument,

    /// Where the event comes from.
    #[arg(long, value_name = "URI", default_value = SOURCE)]
    source: String,

    /// What the event is about.
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,

    /// Identifies the event together with its source, or the message in its stream. Without it, each one is new.
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// A further attribute of the event, such as `eventtypeversion=v1`; may be repeated.
    #[arg(long = "attribute", value_name = "NAME=VALUE")]
    attributes: Vec<String>,
}

/// # Errors
/// The event is malformed, no subscriber takes it, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if let Some(subject) = &args.nats {
        return publish(context, &args, subject).await;
    }
    // clap has refused a command line without a type.
    let kind = args.kind.clone().unwrap_or_default();
    let id = match &args.id {
        Some(id) => id.clone(),
        None => random::hex()?,
    };
    // Attributes are headers (CloudEvents' binary content mode), so the data is sent as it is.
    let header = |(name, value): (&str, &str)| {
        let value = utf8_percent_encode(value, ENCODED).to_string();
        (format!("ce-{name}"), value)
    };
    let attributes = [
        ("specversion", "1.0"),
        ("id", id.as_str()),
        ("source", args.source.as_str()),
        ("type", kind.as_str()),
    ];
    let mut headers: Vec<_> = attributes.map(header).into();
    headers.extend(args.subject.as_deref().map(|subject| header(("subject", subject))));
    for attribute in &args.attributes {
        let expected = || CommandFailure::usage(format!("`--attribute {attribute}`: expected NAME=VALUE"));
        headers.push(header(attribute.split_once('=').ok_or_else(expected)?));
    }
    let reply = send(context, &args, "/v1/events", headers).await?;
    context.out.answer(&reply.body, |event: &EventAccepted, out| {
        let delivered = &event.delivered;
        // A sender may repeat an event to be sure of it, so this is no failure.
        if delivered.duplicate {
            out.aside(&format!(
                "the event `{}` of `{}` was sent before; it ran then",
                event.id, args.source
            ));
        }
        for refused in &delivered.refused {
            out.aside(&format!("`{}` does not take it: {}", refused.function, refused.why));
        }
        if let Some(stored) = &delivered.stream {
            return out.table(&stored_table((stored.sequence, &stored.name), ("TYPE", &kind)));
        }
        if delivered.invocations.is_empty() {
            out.aside(&format!(
                "no function subscribes to `{kind}` from `{}`: `fndctl show F` shows the types of `[[event]]` of a function",
                args.source
            ));
            return Ok(());
        }
        out.table(&table(["ID", "FUNCTION"], &delivered.invocations, |taken| {
            [taken.id.to_string(), taken.function.to_string()]
        }))
    })
}

/// Sends the payload with further headers.
async fn send(
    context: &Context,
    args: &Args,
    path: &str,
    mut headers: Vec<(String, String)>,
) -> Result<Reply, CommandFailure> {
    let body = match args.payload.read(context, false)? {
        Some((bytes, media_type)) => {
            headers.push(("Content-Type".to_owned(), media_type.to_owned()));
            bytes.into()
        }
        None => Bytes::new(),
    };
    let request = request(Method::POST, path, &headers, body)?;
    Ok(context.client.send(request).await?)
}

/// Publishes a message to a subject.
async fn publish(context: &Context, args: &Args, subject: &str) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    parameters.add("subject", Some(subject));
    parameters.add("id", args.id.as_deref());
    let path = format!("/v1/nats/publish{}", parameters.0);
    let reply = send(context, args, &path, Vec::new()).await?;
    context.out.answer(&reply.body, |message: &PublishedMessage, out| {
        // A sender may repeat a message to be sure of it, so this is no failure.
        if message.duplicate {
            out.aside(&format!("{} has a message with this id already", message.stream));
        }
        let stored = (message.sequence, message.stream.as_str());
        out.table(&stored_table(stored, ("SUBJECT", &message.subject)))
    })
}

/// Returns a table that says where a stream has something.
fn stored_table(stored: (u64, &str), (title, what): (&'static str, &str)) -> TextTable {
    table(["SEQUENCE", "STREAM", title], [stored], |(sequence, stream)| {
        [sequence.to_string(), stream.to_owned(), what.to_owned()]
    })
}
