//! A node that is killed with everything on it while it has a message, and another one that goes on with it: how soon.

use super::{PATIENCE, now_ns, setup};
use crate::table::Table;
use fnd_tests::nats::{NatsClient, NatsServer};
use fnd_tests::{Fnd, install, wait_until};
use std::fs;
use std::time::Duration;

const STREAM: &str = "TAKEN";
const CONSUMER: &str = "fnd-taken";

/// How long a node may be silent.
const MANIFEST: &str = "[[nats]]\nsubject = \"taken.>\"\nstream = \"TAKEN\"\nack_wait = \"10s\"\n\
    [limits]\ngrace = \"500ms\"\n[retry]\nretries = 3\ninterval = \"500ms\"\non = [\"interrupted\"]\n\
    [pool]\nmin = 1\nmax = 1\n";

/// Writes when it has begun, and runs for as long as it is held.
const HANDLER: &str = "import os, time
def handler(event, context):
    home = os.environ['STATE_DIRECTORY']
    with open(os.path.join(home, 'journal'), 'a') as journal:
        journal.write('%d\\n' % time.time_ns())
    while os.path.exists(os.path.join(home, 'held')):
        time.sleep(0.01)
";

/// Measures it so often, each time with two new nodes.
pub(super) fn measure(server: &NatsServer, client: &NatsClient, rounds: usize, table: &mut Table) {
    client.make_stream(STREAM, &["taken.>"], "workqueue");
    let mut times: Vec<Duration> = (0..rounds).map(|round| once(server, client, round)).collect();
    times.sort_unstable();
    let seconds: Vec<String> = times.iter().map(|time| format!("{:.1}", time.as_secs_f64())).collect();
    table.value(
        "node killed, until another one has begun (ack_wait 10 s)",
        format!("{} s", seconds.join(", ")),
    );
}

fn once(server: &NatsServer, client: &NatsClient, round: usize) -> Duration {
    // A name belongs to one state directory.
    let name = format!("one{round}");
    let mut one = start(server, &name);
    let home = one.path("state/home/taken");
    fs::write(home.join("held"), "").expect("the function has a home");
    client.wait_consumer(STREAM, CONSUMER);
    client.publish("taken.one", &[], "1");
    let _ = wait_begun(&one);
    let two = start(server, &format!("two{round}"));
    // The other node asks for messages, so that its own start does not count.
    wait_until("both nodes to ask", PATIENCE, || {
        let view: serde_json::Value = serde_json::from_str(&two.client().get("/v1/nats").text()).ok()?;
        (view["triggers"][0]["state"] == "consuming").then_some(())
    });
    wait_renewed(client, &name);
    let killed = now_ns();
    one.kill();
    one.kill_spawner();
    let begun = wait_begun(&two);
    client.wait_acknowledged(STREAM, CONSUMER);
    two.finish();
    Duration::from_nanos(begun.saturating_sub(killed))
}

fn start(server: &NatsServer, node: &str) -> Fnd {
    let code = install::with_manifest("taken.py", MANIFEST, HANDLER);
    let fnd = Fnd::start_with(&setup(server, node).detached().file("taken.py", &code));
    fnd.wait_ready("taken");
    fnd
}

/// Waits until a node renews its lease. Another node proves silence from a renewal of which it has heard, and nodes are usually there for
/// much longer than the time between two.
fn wait_renewed(client: &NatsClient, node: &str) {
    let renewed = || {
        let nodes = client.keys("fnd-claims", "nodes.");
        let (_, record) = nodes
            .into_iter()
            .find(|(key, _)| key.strip_prefix("nodes.") == Some(node))?;
        record["at_ms"].as_u64()
    };
    let before = renewed();
    wait_until("the lease to be renewed", PATIENCE, || {
        (renewed() > before).then_some(())
    });
}

/// Waits until a node has begun the message; returns when.
fn wait_begun(fnd: &Fnd) -> u64 {
    let journal = fnd.path("state/home/taken/journal");
    wait_until("the message to have begun", PATIENCE, || {
        let text = fs::read_to_string(&journal).ok()?;
        text.split_once('\n')?.0.parse().ok()
    })
}
