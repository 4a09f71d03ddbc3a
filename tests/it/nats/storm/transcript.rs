//! Three nodes, one stream and many messages: a node is killed with everything on it, then the server, then a node is cut off from the
//! server. Everything is told as it happens, and each interrupted message with its node. `FND_NATS_MESSAGES=N` publishes so many.

use super::ground::{Event, Ground, NAMES};
use super::oracle::Oracle;
use super::say;
use crate::nats::journal::Journal;
use crate::nats::several::server;
use crate::nats::{CONSUMER, STREAM};
use fnd_tests::nats::Publisher;
use fnd_tests::{require, wait_until};
use std::time::Duration;

/// Messages, unless `FND_NATS_MESSAGES` says how many.
const MESSAGES: u32 = 120;
/// How long the nodes may take for all of them.
const PATIENCE: Duration = Duration::from_secs(900);
/// The test itself mends nodes.
const UNTIL_MENDED: Duration = PATIENCE;

#[test]
fn nothing_is_lost_and_nothing_runs_twice_whatever_is_killed() {
    require!(nats, root, cgroup);
    let wanted = std::env::var("FND_NATS_MESSAGES").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(MESSAGES);
    let mut random = fastrand::Rng::with_seed(1);
    let (server, client) = server();
    drop(client);
    let mut ground = Ground::begin(server);
    say(&format!("three fnd ({}), one stream", NAMES.join(", ")));
    let messages = publish(&ground, wanted);
    say(&format!("{messages} messages are confirmed"));

    wait_ended(&ground, messages / 4);
    ground.break_node(0, (Event::KillBoth, UNTIL_MENDED), &mut random);
    say(&format!("{}: kill -9 of fnd and its spawner", NAMES[0]));
    wait_ended(&ground, messages / 2);
    ground.kill_server();
    say("nats-server: kill -9, and started again");
    ground.mend_all();
    say(&format!("{}: started again", NAMES[0]));
    wait_ended(&ground, messages / 4 * 3);
    ground.break_node(1, (Event::Stall, UNTIL_MENDED), &mut random);
    say(&format!(
        "{}: nothing goes through its link to the server any more",
        NAMES[1]
    ));
    // The others go on with what this node had.
    wait_ended(&ground, messages);
    ground.mend_all();
    say(&format!("{}: its link is whole again", NAMES[1]));

    ground.server.client().wait_acknowledged(STREAM, CONSUMER);
    ground.wait_nothing_here();
    assert_eq!(ground.server.client().messages(STREAM), 0);
    let oracle = Oracle::read(&ground);
    oracle.taken_over().iter().for_each(|taken| say(taken));
    let (interrupted, findings) = oracle.check(messages, &ground);
    assert!(findings.is_empty(), "{findings:#?}");
    say(&format!(
        "{messages} messages, lost 0, doubled 0, {interrupted} interrupted and named"
    ));
    ground.finish();
}

/// Publishes so many messages at least; returns how many a stream has confirmed.
#[track_caller]
fn publish(ground: &Ground, wanted: u32) -> u32 {
    let publisher = Publisher::begin(&ground.server.url(), "orders.new", Duration::ZERO);
    wait_until("the messages to be published", PATIENCE, || {
        (publisher.confirmed() >= wanted).then_some(())
    });
    publisher.end()
}

/// Waits until so many messages have ended.
#[track_caller]
fn wait_ended(ground: &Ground, count: u32) {
    wait_until(&format!("{count} messages to have ended"), PATIENCE, || {
        let nodes = ground.nodes.iter().map(|node| &node.fnd);
        (Journal::read(nodes, "take").ended().len() >= count as usize).then_some(())
    });
}
