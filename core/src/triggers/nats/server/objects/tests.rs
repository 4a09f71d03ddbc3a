use super::super::answers::{ConsumerConfig, ConsumerPosition};
use super::*;
use crate::triggers::nats::rules::tests::rules;

fn stream(subjects: &[&str]) -> StreamInfo {
    StreamInfo {
        created_ns: 1,
        config: StreamConfig {
            subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
            ..StreamConfig::default()
        },
    }
}

/// Returns the consumer that fnd makes for the rules of the tests, after a change.
fn consumer(change: impl FnOnce(&mut ConsumerConfig)) -> ConsumerInfo {
    let mut config = ConsumerConfig {
        ack_policy: "explicit".to_owned(),
        ack_wait: 30_000_000_000,
        max_deliver: -1,
        filter_subject: "orders.>".to_owned(),
        deliver_policy: "new".to_owned(),
        ..ConsumerConfig::default()
    };
    change(&mut config);
    ConsumerInfo {
        created_ns: 1,
        config,
        delivered: ConsumerPosition::default(),
        ack_floor: ConsumerPosition::default(),
        num_pending: 0,
        num_redelivered: 0,
        paused: false,
        pause_remaining: 0,
    }
}

#[track_caller]
fn left(step: &ConsumerStep, words: &str) {
    let ConsumerStep::Leave(why) = step else {
        panic!("{step:?}");
    };
    assert!(why.contains(words), "{why}");
}

#[track_caller]
fn left_stream(rules: &NatsRules, found: Option<&StreamInfo>, words: &str) {
    let why = stream_problem(rules, found).expect("it cannot be used");
    assert!(why.contains(words), "{why}");
}

#[test]
fn a_stream_is_made_only_where_the_manifest_says_so() {
    let mut rules = rules(true);
    left_stream(&rules, None, "there is no stream `ORDERS`");
    rules.creates = true;
    assert_eq!(stream_problem(&rules, None), None);
    for subjects in [&["orders.*", "x"][..], &[], &[">"]] {
        assert_eq!(stream_problem(&rules, Some(&stream(subjects))), None, "{subjects:?}");
    }
    left_stream(&rules, Some(&stream(&["a", "b"])), "only `a`, `b`");
    let (subject, body) = stream_request(&rules, 3);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(subject, "$JS.API.STREAM.CREATE.ORDERS");
    assert_eq!(
        (&body["retention"], &body["num_replicas"]),
        (&json!("workqueue"), &json!(3))
    );
}

#[test]
fn the_stream_of_events_keeps_them_for_each_function() {
    let keeps = Duration::from_hours(24);
    let mut rules = rules(true);
    (rules.stream, rules.subject, rules.creates) = (Some("fnd".to_owned()), "fnd.events.order.>".to_owned(), true);
    rules.events = Some(EventStream {
        name: "fnd".into(),
        keeps,
    });
    assert_eq!(stream_problem(&rules, None), None);
    let (subject, body) = stream_request(&rules, 3);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(subject, "$JS.API.STREAM.CREATE.fnd");
    assert_eq!(body["subjects"], json!(["fnd.events.>"]));
    assert_eq!(
        (&body["retention"], &body["max_age"]),
        (&json!("limits"), &json!(86_400_000_000_000_u64))
    );
    let (_, body) = consumer_request(&rules, &DeliverFrom::New.into());
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["config"]["inactive_threshold"], json!(86_400_000_000_000_u64));
    let mut found = stream(&["fnd.events.>"]);
    found.config.retention = "workqueue".to_owned();
    left_stream(&rules, Some(&found), "retention `workqueue`");
    found.config.retention = "limits".to_owned();
    assert_eq!(stream_problem(&rules, Some(&found)), None);
}

#[test]
fn only_a_consumer_of_the_default_name_is_made_again() {
    let mut rules = rules(true);
    rules.deliver = DeliverFrom::New;
    let makes = |deliver: DeliverFrom| ConsumerStep::Make(deliver.into());
    assert_eq!(consumer_step(&rules, None, None), makes(DeliverFrom::New));
    assert_eq!(
        consumer_step(&rules, None, Some(before("workqueue"))),
        makes(DeliverFrom::All)
    );
    (rules.consumer, rules.is_own_consumer) = ("workers".to_owned(), false);
    assert_eq!(consumer_step(&rules, None, None), makes(DeliverFrom::New));
    left(
        &consumer_step(&rules, None, Some(before("limits"))),
        "the consumer `workers` is gone",
    );
    let (subject, body) = consumer_request(&rules, &DeliverFrom::All.into());
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(subject, "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.workers");
    assert_eq!(body["config"]["ack_wait"], json!(30_000_000_000_u64));
    assert_eq!(
        (&body["config"]["deliver_policy"], &body["config"]["max_deliver"]),
        (&json!("all"), &json!(-1))
    );
}

/// Returns what is known of a consumer that was made on 2026-11-19 at 8:00, two days ago.
fn before(retention: &str) -> ConsumerBefore<'_> {
    ConsumerBefore {
        made_ns: 1_795_075_200_000_000_000,
        retention,
        keeps: Duration::from_hours(24),
        now_ns: 1_795_248_000_000_000_000,
    }
}

/// An older message has no claim any more, and would run again.
#[test]
fn a_consumer_that_is_made_again_begins_with_what_claims_still_know() {
    let mut rules = rules(true);
    let since = |time: &str| ConsumerStart::Since(time.to_owned());
    for retention in ["limits", "interest"] {
        let step = consumer_step(&rules, None, Some(before(retention)));
        assert_eq!(step, ConsumerStep::Make(since("2026-11-20T09:00:00Z")));
    }
    // Messages from before the function's first consumer were never for it.
    rules.deliver = DeliverFrom::New;
    let young = ConsumerBefore {
        made_ns: before("limits").now_ns - 60_000_000_000,
        ..before("limits")
    };
    let step = consumer_step(&rules, None, Some(young));
    assert_eq!(step, ConsumerStep::Make(since("2026-11-21T07:59:00Z")));
    let (_, body) = consumer_request(&rules, &since("2026-11-20T09:00:00Z"));
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&body["config"]["deliver_policy"], &body["config"]["opt_start_time"]),
        (&json!("by_start_time"), &json!("2026-11-20T09:00:00Z"))
    );
    // The server refuses to change where a consumer begins.
    let again = consumer(|config| {
        (config.ack_wait, config.deliver_policy) = (5_000_000_000, "by_start_time".to_owned());
        config.opt_start_time = Some("2026-11-20T09:00:00Z".to_owned());
    });
    assert_eq!(
        consumer_step(&rules, Some(&again), None),
        ConsumerStep::Update(since("2026-11-20T09:00:00Z"))
    );
}

#[test]
fn a_consumer_that_is_there_is_used_changed_or_left() {
    let mut rules = rules(true);
    assert_eq!(
        consumer_step(&rules, Some(&consumer(|_| {})), Some(before("workqueue"))),
        ConsumerStep::Use(None)
    );
    let push = consumer(|config| config.deliver_subject = Some("x".to_owned()));
    left(&consumer_step(&rules, Some(&push), None), "unasked");
    let all = consumer(|config| config.ack_policy = "all".to_owned());
    left(&consumer_step(&rules, Some(&all), None), "needs `explicit`");
    // The server lets nobody change where it begins.
    let slow = consumer(|config| config.ack_wait = 5_000_000_000);
    assert_eq!(
        consumer_step(&rules, Some(&slow), None),
        ConsumerStep::Update(DeliverFrom::New.into())
    );
    let other = consumer(|config| config.filter_subject = "x".to_owned());
    assert_eq!(
        consumer_step(&rules, Some(&other), None),
        ConsumerStep::Update(DeliverFrom::New.into())
    );
    rules.is_own_consumer = false;
    let says = |found: &ConsumerInfo| match consumer_step(&rules, Some(found), None) {
        ConsumerStep::Use(why) => why.unwrap_or_default(),
        step => panic!("{step:?}"),
    };
    assert!(
        says(&slow).ends_with("has an `ack_wait` of 5s, the manifest 30s"),
        "{}",
        says(&slow)
    );
    assert!(says(&consumer(|config| config.max_deliver = 5)).contains("5 times at most"));
    assert_eq!(says(&consumer(|config| config.filter_subject = String::new())), "");
    let many = consumer(|config| {
        config.filter_subject = String::new();
        config.filter_subjects = vec!["x".to_owned(), "orders.new".to_owned()];
    });
    assert_eq!(says(&many), "");
    left(
        &consumer_step(&rules, Some(&other), None),
        "has no messages with the subject `orders.>`",
    );
}

#[test]
fn a_bucket_keeps_its_keys_for_a_day_at_least() {
    let hours = Duration::from_hours;
    assert_eq!(
        (bucket_keeps(hours(1)), bucket_keeps(hours(48))),
        (hours(24), hours(48))
    );
    let (subject, body) = bucket_request("fnd-claims", 1, hours(24));
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(subject, "$JS.API.STREAM.CREATE.KV_fnd-claims");
    assert_eq!(
        (&body["subjects"], &body["allow_direct"]),
        (&json!(["$KV.fnd-claims.>"]), &json!(false))
    );
    let kept = |max_age| StreamConfig {
        max_age,
        ..StreamConfig::default()
    };
    let problem = |max_age| bucket_problem("b", &kept(max_age), hours(24));
    assert_eq!((problem(0), problem(86_400_000_000_000)), (None, None));
    assert!(problem(3_600_000_000_000).is_some_and(|words| words.contains("for 1h")));
}

#[test]
fn refusals_say_what_is_wrong() {
    let refused = |err_code| {
        let description = "no".to_owned();
        refusal("cannot make `C`", &ApiError { err_code, description })
    };
    assert_eq!(
        refused(error::NOT_ENABLED),
        "JetStream is off for this account of the server"
    );
    assert!(refused(error::CONSUMER_NOT_UNIQUE).starts_with("cannot make `C`: another consumer"));
    assert_eq!(refused(1), "cannot make `C`: no (1)");
}
