//! Three nodes on one queue, of which one after the other dies.

use super::journal::{Journal, code};
use super::several::{FENCED, node, server, take_away};
use super::{CONSUMER, ENTRY, STREAM, serve};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};

/// How many messages.
const MESSAGES: u32 = 300;

/// Nodes die and come back, and the server is killed. Every message has an end, and no two attempts of one were there
/// at the same time.
#[test]
fn three_nodes_survive_the_deaths_of_each_other() {
    require!(nats, root, cgroup);
    let (mut server, client) = server();
    let names = ["vm1", "vm2", "vm3"];
    let mut nodes = names.map(|name| {
        let fnd = node(&server, name);
        serve(&fnd, "take", &format!("{ENTRY}{FENCED}"), &code(name, "sleep 0.2"));
        fnd
    });
    client.publish_numbers("orders.new", 0..MESSAGES);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    // When each node was taken away, so that an attempt without an end was over then.
    let mut deaths: Vec<(&str, u64)> = Vec::new();
    for round in 0..4 {
        let target = Journal::read(&nodes, "take").ended().len() + random.usize(10..40);
        wait_until(
            &format!("{target} messages to have ended (seed {seed}, round {round})"),
            PATIENCE,
            || {
                let ended = Journal::read(&nodes, "take").ended().len();
                (ended >= target.min(MESSAGES as usize)).then_some(())
            },
        );
        let index = random.usize(..nodes.len());
        if random.bool() {
            deaths.push((names[index], take_away(&mut nodes[index])));
        } else {
            // Only fnd: what runs goes on and is adopted.
            nodes[index].kill();
        }
        if round == 2 {
            server.kill();
            server.launch();
        }
        nodes[index].launch();
    }
    server.client().wait_acknowledged(STREAM, CONSUMER);
    let journal = Journal::read(&nodes, "take");
    journal.check_one_at_a_time(|attempt| {
        let own = deaths
            .iter()
            .filter(|(name, at)| *name == attempt.node && *at >= attempt.begun_ns);
        // Its node died after it had begun; or it was ended by its node, and wrote nothing.
        own.map(|(_, at)| *at).min().unwrap_or(attempt.begun_ns)
    });
    let ended = journal.ended();
    assert_eq!(
        ended.len(),
        MESSAGES as usize,
        "seed {seed}: {} messages have ended",
        ended.len()
    );
    assert_eq!(server.client().messages(STREAM), 0, "seed {seed}");
    for fnd in nodes {
        fnd.finish();
    }
}
