//! An entry of `[[nats]]` with what the rest of its manifest says about it: how many messages this node has at once, and how
//! another node may go on with one.

use super::claim::ClaimLimit;
use super::event::EventStream;
use fnd_manifest::function::nats::{AckMode, DeliverFrom};
use fnd_manifest::function::{EventSubscription, Manifest, NatsTrigger, RetryOn};
use fnd_wire::ids::FunctionName;
use std::time::Duration;

/// The time that the end of an attempt may take beyond its grace period: the spawner waits a second for fnd before it acts itself, and a
/// second is for the kill and for clocks of nodes that do not run at one speed. The judge refuses an `ack_wait` that leaves
/// no time beside it.
pub const LEASE_MARGIN: Duration = Duration::from_secs(2);
/// How far the wall clocks of two nodes may differ. It counts only for work that no other node begins again.
pub const CLOCKS_DIFFER: Duration = Duration::from_secs(5);
/// A lease is renewed so often in its time, so that one lost renewal ends no attempt.
const RENEWALS: u32 = 3;
/// `ack_wait` where no entry of `[[nats]]` says it: the default of the key.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// The limits of a function, outside `[[nats]]`, that count for its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionLimits {
    /// Attempts at once: `pool.max` times `pool.concurrency`.
    pub places: u32,
    /// `limits.timeout`.
    pub timeout: Option<Duration>,
    /// `limits.grace`.
    pub grace: Duration,
    /// Whether `retry.on` has `interrupted`: then another node may begin an attempt after one whose end it does not know.
    pub retries_interrupted: bool,
}

impl From<&Manifest> for FunctionLimits {
    fn from(manifest: &Manifest) -> Self {
        Self {
            places: manifest.pool.max.saturating_mul(manifest.pool.concurrency),
            timeout: manifest.limits.timeout,
            grace: manifest.limits.grace,
            retries_interrupted: manifest.retry.on.contains(&RetryOn::Interrupted),
        }
    }
}

impl FunctionLimits {
    /// Returns `ack_wait` where no entry says it. A function with a long grace period gets more, so that a lease has time in it.
    #[must_use]
    pub fn ack_wait(&self) -> Duration {
        ACK_WAIT.max(self.grace.saturating_mul(2))
    }
}

/// An entry of `[[nats]]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsRules {
    /// The subject, with wildcards.
    pub subject: String,
    /// The stream; absent: the function answers requests.
    pub stream: Option<String>,
    /// Whether fnd makes the stream if it is missing.
    pub creates: bool,
    /// The name of the consumer, which all nodes share.
    pub consumer: String,
    /// Whether that name is fnd's own. Only such a consumer is made again after somebody has deleted it.
    pub is_own_consumer: bool,
    /// Most messages that this node has and whose work has not ended.
    pub max_in_flight: u32,
    /// When a message is acknowledged.
    pub ack: AckMode,
    /// How long the server waits for a sign of life before it delivers a message again.
    pub ack_wait: Duration,
    /// Attempts that begin without an end before the message is a dead letter.
    pub max_deliver: u32,
    /// Where a new consumer begins.
    pub deliver: DeliverFrom,
    /// The stream of all events; present where these are the rules of `[[event]]`.
    pub events: Option<EventStream>,
    limits: FunctionLimits,
}

impl NatsRules {
    /// Returns the rules of an entry.
    #[must_use]
    pub fn of(function: &FunctionName, entry: &NatsTrigger, limits: FunctionLimits) -> Self {
        Self {
            subject: entry.subject.clone(),
            stream: entry.stream.clone(),
            creates: entry.create,
            consumer: entry.consumer.clone().unwrap_or_else(|| own_consumer(function)),
            is_own_consumer: entry.consumer.is_none(),
            max_in_flight: entry.max_in_flight.unwrap_or(limits.places),
            ack: entry.ack,
            ack_wait: entry.ack_wait,
            max_deliver: entry.max_deliver,
            deliver: entry.deliver,
            events: None,
            limits,
        }
    }

    /// Returns the rules of all entries of `[[event]]` of a function, whose events go through a stream.
    #[must_use]
    pub fn of_events(
        function: &FunctionName,
        entries: &[EventSubscription],
        stream: &EventStream,
        limits: FunctionLimits,
    ) -> Self {
        let entry = NatsTrigger {
            subject: stream.filter(entries.iter().map(|entry| entry.r#type.as_str())),
            stream: Some(stream.name.to_string()),
            create: true,
            ack_wait: limits.ack_wait(),
            // An event that was sent before any node had the function is not for the function.
            deliver: DeliverFrom::New,
            ..NatsTrigger::default()
        };
        Self {
            // Nobody can write this name, so no two functions may have the same one: `shop/mail` and `shop_mail` have two.
            consumer: format!("fnd-event-{}", one_of_a_kind(function)),
            events: Some(stream.clone()),
            ..Self::of(function, &entry, limits)
        }
    }

    /// Returns how long an attempt may go on after the last renewal of the lease that was answered, until it gets SIGTERM. Absent:
    /// no other node begins the work, so nothing ends it but its own limits.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        (self.claims() && self.limits.retries_interrupted).then(|| lease(self.ack_wait, self.limits.grace))
    }

    /// Returns how often the server gets a sign of life, and the lease is renewed.
    #[must_use]
    pub fn beat(&self) -> Duration {
        beat(self.lease().unwrap_or(self.ack_wait))
    }

    /// Returns the limit of the claim on an attempt that begins at `now_ms`, Unix milliseconds.
    #[must_use]
    pub fn limit(&self, now_ms: u64) -> ClaimLimit {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if self.limits.retries_interrupted {
            return ClaimLimit::Silence(ms(self.ack_wait));
        }
        match self.limits.timeout {
            Some(timeout) => {
                let lasts = timeout.saturating_add(self.limits.grace).saturating_add(CLOCKS_DIFFER);
                ClaimLimit::Until(now_ms.saturating_add(ms(lasts)))
            }
            None => ClaimLimit::Person,
        }
    }

    /// Says whether messages are claimed. With `ack = "accept"` a message is acknowledged once it is in the ledger, and no other
    /// node gets it.
    #[must_use]
    pub fn claims(&self) -> bool {
        match self.ack {
            AckMode::Done => true,
            AckMode::Accept => false,
        }
    }
}

/// Returns how long an attempt with this grace period may go on after a renewal, if another node waits for so long until it begins
/// the work.
#[must_use]
pub fn lease(silence: Duration, grace: Duration) -> Duration {
    silence.saturating_sub(grace.saturating_add(LEASE_MARGIN))
}

/// Returns how often a lease of this length is renewed.
#[must_use]
pub fn beat(lease: Duration) -> Duration {
    lease / RENEWALS
}

/// Returns the name of the consumer of a function whose manifest names none.
#[must_use]
pub fn own_consumer(function: &FunctionName) -> String {
    // A name of a consumer is part of subjects, which the `/` of a group could be, too; but tools show it in paths.
    format!("fnd-{}", function.as_str().replace('/', "_"))
}

/// Returns the name of the queue group in which the nodes share the requests to a function.
#[must_use]
pub fn queue_group(function: &FunctionName) -> String {
    format!("fnd-{}", one_of_a_kind(function))
}

/// Returns a name for a function that no other function has, as a part of subjects. A name of a function has no `=`.
fn one_of_a_kind(function: &FunctionName) -> String {
    function.as_str().replace('/', "=")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fnd_manifest::schema::pick::FromValue as _;

    /// Returns an entry as a manifest with only its subject and its stream has it.
    pub(crate) fn entry() -> NatsTrigger {
        NatsTrigger {
            subject: "orders.>".to_owned(),
            stream: Some("ORDERS".to_owned()),
            ..NatsTrigger::default()
        }
    }

    /// Returns the limits of a manifest without any key.
    pub(crate) fn limits(retries_interrupted: bool) -> FunctionLimits {
        FunctionLimits {
            places: 4,
            timeout: Some(Duration::from_secs(180)),
            grace: Duration::from_secs(5),
            retries_interrupted,
        }
    }

    /// Returns the rules of that entry.
    pub(crate) fn rules(retries_interrupted: bool) -> NatsRules {
        let function = FunctionName::new("f").unwrap();
        NatsRules::of(&function, &entry(), limits(retries_interrupted))
    }

    #[test]
    fn what_the_manifest_leaves_out_follows_from_the_function() {
        let function = FunctionName::new("shop/orders").unwrap();
        let rules = NatsRules::of(&function, &entry(), limits(false));
        assert_eq!((rules.consumer.as_str(), rules.max_in_flight), ("fnd-shop_orders", 4));
        assert!(rules.is_own_consumer);
        let named = NatsTrigger {
            consumer: Some("workers".to_owned()),
            max_in_flight: Some(16),
            ..entry()
        };
        let rules = NatsRules::of(&function, &named, limits(false));
        assert_eq!((rules.consumer.as_str(), rules.max_in_flight), ("workers", 16));
        assert!(!rules.is_own_consumer);
    }

    #[test]
    fn all_entries_for_events_share_one_consumer_that_begins_with_the_next_event() {
        let function = FunctionName::new("shop/mail").unwrap();
        let subscription = |kind: &str| EventSubscription {
            r#type: kind.to_owned(),
            ..EventSubscription::from_value(None).unwrap()
        };
        let stream = EventStream {
            name: "fnd".into(),
            keeps: Duration::from_hours(24),
        };
        let slow = FunctionLimits {
            grace: Duration::from_secs(60),
            ..limits(true)
        };
        let entries = [subscription("order.created"), subscription("order.paid")];
        let rules = NatsRules::of_events(&function, &entries, &stream, slow);
        assert_eq!(
            (rules.subject.as_str(), rules.consumer.as_str()),
            ("fnd.events.order.>", "fnd-event-shop=mail")
        );
        let other = FunctionName::new("shop_mail").unwrap();
        let others = NatsRules::of_events(&other, &entries, &stream, slow);
        assert_ne!(rules.consumer, others.consumer);
        assert_ne!(queue_group(&function), queue_group(&other));
        assert_eq!((rules.deliver, rules.max_in_flight), (DeliverFrom::New, 4));
        assert!(rules.lease().is_some_and(|lease| lease > Duration::from_secs(30)));
        assert_eq!(limits(true).ack_wait(), Duration::from_secs(30));
    }

    #[test]
    fn only_work_that_may_begin_again_elsewhere_has_a_lease() {
        assert_eq!(rules(true).lease(), Some(Duration::from_secs(23)));
        assert_eq!(rules(true).beat(), Duration::from_secs(23) / 3);
        assert_eq!(rules(false).lease(), None);
        assert_eq!(rules(false).beat(), Duration::from_secs(10));
        let accepted = NatsTrigger {
            ack: AckMode::Accept,
            ..entry()
        };
        let function = FunctionName::new("f").unwrap();
        let rules = NatsRules::of(&function, &accepted, limits(true));
        assert!(!rules.claims());
        assert_eq!(rules.lease(), None);
    }

    #[test]
    fn the_limit_of_a_claim_follows_from_retry_and_timeout() {
        assert_eq!(rules(true).limit(1000), ClaimLimit::Silence(30_000));
        assert_eq!(rules(false).limit(1000), ClaimLimit::Until(191_000));
        let endless = FunctionLimits {
            timeout: None,
            ..limits(false)
        };
        let function = FunctionName::new("f").unwrap();
        let rules = NatsRules::of(&function, &entry(), endless);
        assert_eq!(rules.limit(1000), ClaimLimit::Person);
    }

    /// An attempt that is fenced has ended before the other node may begin: its SIGTERM may be a second late, then come the
    /// grace and the kill.
    #[test]
    fn a_fenced_attempt_is_over_within_ack_wait() {
        let rules = rules(true);
        let late = Duration::from_secs(1);
        let over = rules.lease().unwrap() + late + limits(true).grace;
        assert!(over + late <= rules.ack_wait, "{over:?}");
    }
}
