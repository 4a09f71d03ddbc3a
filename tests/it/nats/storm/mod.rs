//! Three nodes on one stream, each with its own spawner, its own state and its own link to the server. Parts are killed at random
//! under load, the consumer is deleted, and links are cut, stalled and slow; then what the functions have written is compared with
//! what the nodes say.
//!
//! A seed chooses what happens, not how the machine orders it: `FND_NATS_SEED=N` makes the same choices again. `FND_NATS_KILLS=N`
//! kills so often; a partition comes with about every second kill.
//!
//! Files:
//! - `ground`: the nodes, their links and the server, and what happens to them
//! - `oracle`: the rules at the end
//! - `transcript`: one kill of each kind and a partition, each told as it happens

mod ground;
mod oracle;
mod transcript;

use super::several::server;
use super::{CONSUMER, STREAM};
use fnd_tests::nats::Publisher;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};
use ground::{Event, Ground};
use oracle::Oracle;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often something is killed, unless `FND_NATS_KILLS` says: some twenty seconds.
const KILLS: u64 = 10;
/// The pause after each message.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two events, in milliseconds.
const EVENTS_APART: u64 = 900;

#[test]
fn many_kills_and_partitions_of_three_nodes_lose_nothing_and_repeat_nothing() {
    require!(nats, root, cgroup);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FND_NATS_KILLS").unwrap_or(KILLS);
    // 32 bits are enough, and a seed of that size is short enough to type.
    let seed = number("FND_NATS_SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    say(&format!("{kills} kills, seed {seed}"));
    let mut random = fastrand::Rng::with_seed(seed);
    let (server, client) = server();
    drop(client);
    let mut ground = Ground::begin(server);
    let publisher = Publisher::begin(&ground.server.url(), "orders.new", PAUSE);
    wait_until("the first message to be published", PATIENCE, || {
        (publisher.confirmed() > 0).then_some(())
    });
    let begun = fnd_tests::now();
    let mut happened: BTreeMap<&str, u64> = BTreeMap::new();
    let mut killed = 0;
    while killed < kills {
        let event = Event::choose(&mut random);
        if let Some(name) = ground.happen(event, &mut random) {
            *happened.entry(name).or_default() += 1;
            killed += u64::from(event.is_kill());
        }
        let until = fnd_tests::now() + Duration::from_millis(random.u64(50..EVENTS_APART));
        while fnd_tests::now() < until {
            ground.mend_what_is_due();
            fnd_tests::wait::pause_briefly();
        }
    }
    ground.mend_all();
    let published = publisher.end();
    say(&format!(
        "{happened:?} in {} s, {published} messages",
        begun.elapsed().as_secs()
    ));
    let client = ground.server.client();
    client.wait_consumer(STREAM, CONSUMER);
    client.wait_acknowledged(STREAM, CONSUMER);
    ground.wait_nothing_here();
    assert_eq!(client.messages(STREAM), 0, "seed {seed}");
    let oracle = Oracle::read(&ground);
    let (interrupted, findings) = oracle.check(published, &ground);
    let shown: Vec<&String> = findings.iter().take(10).collect();
    assert!(
        findings.is_empty(),
        "seed {seed}: {} findings: {shown:#?}",
        findings.len()
    );
    say(&format!(
        "{published} messages, lost 0, doubled 0, {interrupted} interrupted and named"
    ));
    ground.finish();
}

/// Prints progress.
#[expect(clippy::print_stdout, reason = "a long storm takes a while")]
fn say(what: &str) {
    println!("storm of nodes: {what}");
}
