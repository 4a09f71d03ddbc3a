//! `fndctl nats`: the connection to the servers of NATS, and what this node has of each entry of `[[nats]]`; `fndctl nats release`
//! ends the claim on a message by hand.

use crate::client::encode;
use crate::common::candidates;
use crate::common::tables::toned;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Output, TextTable, Tone, escape};
use crate::text::{between, brief};
use fnd_core::api::{NatsState, NatsTriggerView, NatsView, ReleasedClaim};
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "PENDING messages wait on the server, for any node. HERE are those that this node has and whose runs have not \
    ended, or that are not acknowledged. REDELIVERED were delivered more than once. LEASES are attempts that end unless this node \
    reaches the server in time, and LOST those that have ended so.\n\nExamples:\n  \
    fndctl nats                        the connection, and all entries\n  \
    fndctl nats orders                 those of one function\n  \
    fndctl nats -o json | jq .connected\n  \
    fndctl nats release orders 1207    let another node run a message whose node does not come back"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<NatsVerb>,

    /// Only entries of this function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum NatsVerb {
    /// End the claim of a node on a message: the next node that gets the message runs it.
    ///
    /// For work without `interrupted` in `retry.on`: no other node runs it by itself, because it may still run where it began. Make
    /// sure that it does not, then release it.
    #[command(after_help = "Example:\n  fndctl nats release orders 1207")]
    Release(ClaimedMessage),
}

#[derive(Debug, clap::Args)]
struct ClaimedMessage {
    /// The function that the message runs.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// The sequence of the message in its stream, as `fndctl history --id` shows it.
    #[arg(value_name = "SEQUENCE", value_parser = sequence)]
    sequence: u64,
}

/// Reads the sequence of a message.
fn sequence(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| *number > 0);
    let why = "the sequence of a message in its stream is a whole number from 1 on: `fndctl nats release orders 1207`";
    number.ok_or_else(|| why.to_owned())
}

impl Args {
    /// Says whether the command only reads.
    pub(crate) fn only_reads(&self) -> bool {
        self.action.is_none()
    }
}

/// # Errors
/// `fnd.toml` has no `[events.nats]`, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if let Some(NatsVerb::Release(message)) = &args.action {
        return release(context, message).await;
    }
    let mut path = "/v1/nats".to_owned();
    if let Some(function) = &args.function {
        // If the function is unknown, this fails. Otherwise the list would only be empty.
        context.client.get(&function_path(function)?).await?;
        path.push_str(&format!("?function={}", encode(function)));
    }
    let reply = context.client.get(&path).await?;
    let now = Timestamp::now();
    let out = &context.out;
    out.answer(&reply.body, |view: &NatsView, out| print(out, view, now))
}

fn print(out: &Output, view: &NatsView, now: Timestamp) -> Result<(), CommandFailure> {
    // Of names only the first column of the table is printed.
    if out.format != Format::Name {
        for line in connection(view, now) {
            out.wrapped(&escape(&line, false), 2)?;
        }
    }
    if view.triggers.is_empty() {
        out.aside("no entry of `[[nats]]` serves; `fndctl explain nats` shows how to write one");
        return Ok(());
    }
    out.table(&table(&view.triggers))?;
    if out.format == Format::Table {
        for trigger in &view.triggers {
            if let Some(error) = &trigger.error {
                let line = format!("{} {}: {error}", trigger.function, trigger.subject);
                out.wrapped(&escape(&line, false), 2)?;
            }
        }
    }
    Ok(())
}

/// Returns the lines about the connection.
fn connection(view: &NatsView, now: Timestamp) -> Vec<String> {
    let time = between(Some(&view.since), None, now);
    let server = view.server.as_deref().unwrap_or("a server");
    let took = view.round_trip_ms;
    let took = took.map(|took| format!(", round trip {}", brief(Some(took))));
    let mut lines = vec![if view.connected {
        let took = took.unwrap_or_default();
        format!("{} has been connected to {server} for {time}{took}", view.node)
    } else {
        format!("{} has had no connection for {time}", view.node)
    }];
    lines.extend(view.error.as_ref().map(|error| format!("error: {error}")));
    lines
}

fn table(triggers: &[NatsTriggerView]) -> TextTable {
    let heads = [
        "FUNCTION",
        "SUBJECT",
        "STREAM",
        "CONSUMER",
        "STATE",
        "PENDING",
        "HERE",
        "REDELIVERED",
        "LEASES",
        "LOST",
    ];
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let tone = |trigger: &NatsTriggerView| match trigger.state {
        NatsState::Gone | NatsState::Stalled => Tone::Bad,
        NatsState::Disabled | NatsState::Paused => Tone::Dim,
        NatsState::Consuming | NatsState::Full => Tone::Plain,
    };
    toned(heads, triggers, tone, |trigger| {
        [
            trigger.function.to_string(),
            trigger.subject.clone(),
            trigger.stream.clone().unwrap_or_default(),
            trigger.consumer.clone().unwrap_or_default(),
            trigger.state.as_str().to_owned(),
            number(trigger.pending),
            trigger.here.to_string(),
            number(trigger.redelivered),
            trigger.leases.to_string(),
            trigger.leases_lost.to_string(),
        ]
    })
}

async fn release(context: &Context, message: &ClaimedMessage) -> Result<Exit, CommandFailure> {
    let path = function_path(&message.function)?;
    let path = format!("{path}/nats/release?sequence={}", message.sequence);
    let reply = context.client.post(&path).await?;
    context.out.answer(&reply.body, |released: &ReleasedClaim, out| {
        out.remark(&format!(
            "{} {}: the claim of {} has ended; the next node that gets the message runs it",
            released.stream, released.sequence, released.node
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(connected: bool) -> NatsView {
        NatsView {
            connected,
            server: connected.then(|| "n1 (tls://n1:4222, 2.15.1)".to_owned()),
            node: "vm1".to_owned(),
            since: "2026-11-21T08:00:00.000Z".to_owned(),
            round_trip_ms: connected.then_some(0.42),
            error: (!connected).then(|| "connection refused".to_owned()),
            triggers: Vec::new(),
        }
    }

    #[test]
    fn the_connection_is_said_with_its_server_or_with_what_is_wrong() {
        let now: Timestamp = "2026-11-21T08:03:00Z".parse().unwrap();
        assert_eq!(
            connection(&view(true), now),
            ["vm1 has been connected to n1 (tls://n1:4222, 2.15.1) for 3m, round trip 0.4ms"]
        );
        assert_eq!(
            connection(&view(false), now),
            ["vm1 has had no connection for 3m", "error: connection refused"]
        );
    }

    #[test]
    fn a_sequence_that_is_none_is_told_with_an_example() {
        assert_eq!(sequence("1207"), Ok(1207));
        for wrong in ["abc", "0", "-1", "1.5", ""] {
            assert!(sequence(wrong).unwrap_err().contains("release orders 1207"), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_known_has_no_number() {
        let trigger: NatsTriggerView = serde_json::from_value(serde_json::json!({
            "function": "price", "subject": "orders.price", "stream": null, "consumer": null, "state": "gone",
            "pending": null, "here": 2, "redelivered": null, "leases": 0, "leases_lost": 1, "error": "gone",
        }))
        .unwrap();
        let lines = table(&[trigger]).lines(None);
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert!(words.starts_with(&["price", "orders.price"]), "{lines:?}");
        assert!(words.contains(&"gone") && words.ends_with(&["0", "1"]), "{lines:?}");
    }
}
