//! The facts that were measured with a real server.

use super::*;
use crate::triggers::nats::fact::WriteRefused;
use crate::triggers::nats::request::AckSignal;
use fnd_core::triggers::nats::rules::{FunctionLimits, NatsRules};
use fnd_manifest::function::NatsTrigger;
use fnd_manifest::function::nats::{AckMode, DeliverFrom};
use fnd_wire::ids::FunctionName;

const PEER: Peer = Peer { node: 0, connection: 0 };

/// A server with one stream, whose consumer waits ten seconds for a sign of life.
struct Bench {
    server: JetStream,
    entry: NatsEntry,
    random: Rng,
}

impl Bench {
    fn new(keeps: bool) -> Self {
        let trigger = NatsTrigger {
            subject: "s".to_owned(),
            stream: Some("S".to_owned()),
            create: false,
            consumer: None,
            max_in_flight: None,
            ack: AckMode::Done,
            ack_wait: Duration::from_secs(10),
            max_deliver: 5,
            deliver: DeliverFrom::All,
            dead_letters: None,
            result: None,
            reply: false,
            when: Vec::new(),
        };
        let limits = FunctionLimits {
            places: 4,
            timeout: None,
            grace: Duration::from_secs(5),
            retries_interrupted: true,
        };
        let rules = NatsRules::of(&FunctionName::new("f").unwrap(), &trigger, limits);
        let mut bench = Self {
            server: JetStream::new(&[("S", keeps)], 1),
            entry: NatsEntry {
                number: 1,
                rules: Arc::new(rules),
                group: "f".to_owned(),
            },
            random: Rng::with_seed(1),
        };
        bench.look();
        bench.server.streams[0].publish(7, 0).unwrap().unwrap();
        bench
    }

    fn look(&mut self) {
        let asked = ToServer::Find(self.entry.clone(), true);
        let (found, _) = self.server.serve(PEER, asked, 0);
        assert!(matches!(found, Some(ToNode::Found(1, Ok(_)))), "{found:?}");
    }

    /// Returns what is delivered at this second: the address, and the count.
    fn gets(&mut self, second: u64) -> Option<(Arc<str>, u64)> {
        let asked = ToServer::Pull(self.entry.clone(), 1);
        self.server.serve(PEER, asked, second * 1000);
        let delivered = self.server.deliver(0, second * 1000, &mut self.random);
        self.server.forget_closed(|_| false);
        match delivered {
            Some((_, ToNode::Delivered(message))) => Some((message.ack, message.delivered)),
            _ => None,
        }
    }

    fn signal(&mut self, ack: &Arc<str>, signal: AckSignal, second: u64) {
        let ack = Arc::clone(ack);
        let asked = ToServer::Request(NatsRequest::Signal { ack, signal });
        self.server.serve(PEER, asked, second * 1000);
    }

    /// Ends a delivery. Returns whether the server confirms it.
    fn end(&mut self, ack: &Arc<str>, second: u64) -> bool {
        let asked = ToServer::Request(NatsRequest::Settle {
            number: 1,
            ack: Arc::clone(ack),
            term: None,
        });
        let (answer, _) = self.server.serve(PEER, asked, second * 1000);
        matches!(
            answer,
            Some(ToNode::Answer(NatsFact::Answer(_, NatsAnswer::Settled(Ok(())))))
        )
    }
}

#[test]
fn a_stale_end_is_confirmed_and_the_message_is_gone_while_another_node_has_it() {
    let mut bench = Bench::new(false);
    let (first, _) = bench.gets(0).unwrap();
    assert_eq!(bench.gets(9), None);
    let (second, count) = bench.gets(10).unwrap();
    assert_eq!(count, 2);
    assert!(bench.end(&first, 11) && bench.end(&second, 12), "both are confirmed");
    assert_eq!((bench.gets(60), bench.server.streams[0].left()), (None, 0));
}

#[test]
fn a_stale_sign_of_life_prolongs_what_another_node_has() {
    let mut bench = Bench::new(false);
    let (first, _) = bench.gets(0).unwrap();
    bench.gets(10).unwrap();
    bench.signal(&first, AckSignal::Progress, 19);
    assert_eq!(bench.gets(28), None);
    assert!(bench.gets(29).is_some());
    bench.signal(&first, AckSignal::GiveBack(Duration::from_secs(2)), 30);
    assert_eq!(bench.gets(31), None);
    assert!(bench.gets(32).is_some());
}

#[test]
fn a_consumer_that_is_made_anew_delivers_everything_with_a_count_of_one() {
    let mut bench = Bench::new(false);
    let (first, _) = bench.gets(0).unwrap();
    bench.server.streams[0].delete_consumer();
    assert!(!bench.end(&first, 1), "nobody takes it");
    bench.look();
    assert_eq!(bench.gets(2).unwrap().1, 1);
}

#[test]
fn a_server_that_is_killed_loses_ends_only_where_the_stream_keeps_messages() {
    for keeps in [false, true] {
        let mut bench = Bench::new(keeps);
        let (first, _) = bench.gets(0).unwrap();
        assert!(bench.end(&first, 1));
        bench.server.kill(2000, &mut bench.random);
        assert_eq!(bench.server.can_deliver(2000).count(), 0);
        bench.server.start();
        assert_eq!(bench.gets(3).is_some(), keeps);
    }
}

#[test]
fn an_id_is_known_for_two_minutes_and_a_stream_that_is_made_again_counts_from_one() {
    let mut bench = Bench::new(false);
    let stream = &mut bench.server.streams[0];
    assert_eq!(stream.publish(7, 119_000), Ok(None));
    let again = stream.publish(7, 120_000).unwrap().unwrap();
    assert_eq!(again.sequence, 2);
    stream.delete();
    assert_eq!(stream.publish(7, 120_000), Err(()));
    stream.make_again(9);
    let first = stream.publish(7, 120_001).unwrap().unwrap();
    assert_eq!((first.sequence, first.created_ns), (1, 120_001_000_000));
}

#[test]
fn a_key_is_written_only_in_place_of_the_revision_that_is_there() {
    let mut bucket = BucketModel::new(1);
    let key: Arc<str> = "nodes.vm1".into();
    let mut write = |replaces| bucket.write(&key, "v".into(), replaces);
    assert_eq!([write(None), write(Some(1))], [Ok(1), Ok(2)]);
    assert_eq!(
        [write(None), write(Some(1))],
        [Err(WriteRefused::Conflict), Err(WriteRefused::Conflict)]
    );
    let found = bucket.read(&key).unwrap();
    assert_eq!((found.revision, found.stamp), (2, 2));
}

#[test]
fn a_closed_connection_brings_no_answer_and_may_still_bring_a_request() {
    let mut arrived = 0;
    for seed in 0..20 {
        let mut wire = Wire::new(Rng::with_seed(seed));
        wire.ask(ToServer::FindBucket, Duration::ZERO);
        let before = wire.connection();
        wire.close();
        wire.say(before, ToNode::Bucket(1), Duration::ZERO);
        let later = Duration::from_secs(1);
        assert!(!wire.has_arrived(later).1);
        arrived += u32::from(wire.has_arrived(later).0);
        wire.cut_since = Some(Duration::ZERO);
        assert_eq!(wire.has_arrived(later), (false, false));
    }
    assert!(arrived > 0 && arrived < 20);
}
