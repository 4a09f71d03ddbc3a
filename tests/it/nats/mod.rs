//! Messages of NATS JetStream that run functions, with real servers. Each test has a server of its own, and as many fnd
//! as it needs, each with its own root and its own name as a node.
//!
//! Files:
//! - `acknowledge`: when a message is acknowledged, and when it comes again
//! - `away`: servers, consumers and streams that are gone, and come back
//! - `commits`: a node dies, or its link does, before and after each step that counts
//! - `connect`: the rights that a node needs, each form of its credentials, and TLS
//! - `consume`: a function gets each message once
//! - `events`: events of all nodes, through one stream
//! - `foreign`: other programs and other clocks
//! - `input`: messages that are no input
//! - `journal`: the lines that functions write about their runs, and the rules for them
//! - `partition`: a node without its server, while functions run
//! - `payloads`: payloads and headers that are too large, of several lines, or none at all
//! - `poison`: messages that end the node that has them
//! - `publish`: dead letters, results and replies
//! - `several`: two nodes on one queue; one of them dies
//! - `shown`: people see the connection, and act
//! - `stopped`: fnd is stopped (SIGSTOP), and its functions are not
//! - `storm`: three nodes whose parts are killed and whose links are cut at random
//! - `three`: three nodes, which die one after the other

mod acknowledge;
mod away;
mod commits;
mod connect;
mod consume;
mod events;
mod foreign;
mod input;
mod journal;
mod partition;
mod payloads;
mod poison;
mod publish;
mod several;
mod shown;
mod stopped;
mod storm;
mod three;

use fnd_core::api::{InvocationView, NatsView};
use fnd_core::records::outcome::Trigger;
use fnd_tests::nats::{NatsClient, NatsServer};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, install, wait_until};
use std::time::Duration;

/// The stream of most tests, and its subjects.
const STREAM: &str = "ORDERS";
const SUBJECTS: &str = "orders.>";
/// The name of the consumer of the function `take`.
const CONSUMER: &str = "fnd-take";

/// The entry of most tests.
const ENTRY: &str = "[[nats]]\nsubject = \"orders.>\"\nstream = \"ORDERS\"\n";

/// The code of most tests: each message becomes a line of `journal`, in one write, as runs may be at it at once.
const KEEP: &str = "data=$(cat); echo \"$data\" >>\"$STATE_DIRECTORY/journal\"\n";

/// Returns the set-up of a node.
fn setup(server: &NatsServer, node: &str) -> Setup {
    setup_at(&server.url(), node)
}

/// Returns the set-up of a node whose server has this address.
fn setup_at(url: &str, node: &str) -> Setup {
    let config = format!("[events.nats]\nservers = \"{url}\"\nnode = \"{node}\"\n");
    Setup::default().config(&config)
}

/// Starts a server with a work queue, and one node.
#[track_caller]
fn start() -> (NatsServer, NatsClient, Fnd) {
    let server = NatsServer::start();
    let client = server.client();
    client.make_stream(STREAM, &[SUBJECTS], "workqueue");
    let fnd = Fnd::start_with(&setup(&server, "vm1"));
    (server, client, fnd)
}

/// Installs a bash function with a manifest, and waits until it serves.
#[track_caller]
fn serve(fnd: &Fnd, name: &str, manifest: &str, code: &str) {
    let file = format!("{name}.sh");
    fnd.drop_file(&file, &install::with_manifest(&file, manifest, code));
    fnd.wait_ready(name);
}

/// Returns the runs of a function by messages that have ended, newest first.
fn runs(fnd: &Fnd, function: &str) -> Vec<InvocationView> {
    let mut runs = fnd.history(function);
    runs.retain(|run| run.trigger == Trigger::Nats && run.state.is_final());
    runs
}

/// Waits until so many runs by messages have ended, and returns them, newest first.
#[track_caller]
fn wait_runs(fnd: &Fnd, function: &str, count: usize) -> Vec<InvocationView> {
    wait_until(&format!("{count} runs of {function}"), PATIENCE, || {
        Some(runs(fnd, function)).filter(|runs| runs.len() >= count)
    })
}

/// Returns what a node says of NATS.
fn view(fnd: &Fnd) -> NatsView {
    serde_json::from_str(&fnd.client().get("/v1/nats").text()).expect("the view of NATS")
}

/// Waits until a node has no message that is not acknowledged.
#[track_caller]
fn wait_nothing_here(fnd: &Fnd) {
    wait_until("nothing to be here", PATIENCE, || {
        let view = view(fnd);
        let is_empty = !view.triggers.is_empty() && view.triggers.iter().all(|entry| entry.here == 0);
        (view.connected && is_empty).then_some(())
    });
}

/// Waits until a consumer is asked for messages.
#[track_caller]
fn wait_asked(client: &NatsClient, consumer: &str) {
    wait_until(&format!("{consumer} to be asked for messages"), PATIENCE, || {
        (client.consumer(STREAM, consumer)?["num_waiting"].as_u64()? > 0).then_some(())
    });
}

/// Waits until a consumer has delivered so many messages, each as often as it has.
#[track_caller]
fn wait_delivered(client: &NatsClient, count: u64) {
    wait_until(&format!("{count} deliveries"), PATIENCE, || {
        let info = client.consumer(STREAM, CONSUMER)?;
        (info["delivered"]["consumer_seq"].as_u64()? >= count).then_some(())
    });
}

/// Waits for a time in which something must not happen.
#[track_caller]
fn wait_over(time: Duration) {
    let begun = fnd_tests::now();
    wait_until("a time to be over", PATIENCE, || {
        (begun.elapsed() >= time).then_some(())
    });
}

/// Returns the lines that a function has written to a file of its home.
fn lines(fnd: &Fnd, function: &str, file: &str) -> Vec<String> {
    let path = fnd.path("state/home").join(function).join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the same, sorted.
fn sorted(fnd: &Fnd, function: &str, file: &str) -> Vec<String> {
    let mut lines = lines(fnd, function, file);
    lines.sort();
    lines
}
