//! The values of NATS, which are read for each scrape.

use super::registering::MetricRegistry;
use super::{LabelValues, MetricCounts, SampleValue};

/// The connection, and by function what this node has of its messages.
pub(crate) struct NatsMetrics {
    pub(crate) connected: SampleValue,
    pub(crate) round_trip: SampleValue,
    pub(crate) pending: LabelValues,
    pub(crate) here: LabelValues,
    pub(crate) leases: LabelValues,
    pub(crate) redelivered: MetricCounts,
    pub(crate) leases_lost: MetricCounts,
    pub(crate) claims_refused: MetricCounts,
    pub(crate) duplicates: MetricCounts,
    pub(crate) skipped: MetricCounts,
}

impl NatsMetrics {
    pub(super) fn new(r: &mut MetricRegistry) -> Self {
        Self {
            connected: r.plain("fnd_nats_connected", "Whether fnd is connected to a server of NATS"),
            round_trip: r.seconds(
                "fnd_nats_round_trip",
                "How long the server of NATS took for its last answer",
            ),
            pending: r.plain(
                "fnd_nats_pending",
                "Messages that the server has not delivered yet, to any node",
            ),
            here: r.plain(
                "fnd_nats_here",
                "Messages that this node has and whose runs have not ended, or that are not acknowledged",
            ),
            leases: r.plain(
                "fnd_nats_leases",
                "Attempts that end unless the lease of this node is renewed",
            ),
            redelivered: r.plain(
                "fnd_nats_redelivered",
                "Messages that came to this node and were delivered before",
            ),
            leases_lost: r.plain(
                "fnd_nats_leases_lost",
                "Attempts that were ended because the lease was not renewed in time",
            ),
            claims_refused: r.plain(
                "fnd_nats_claims_refused",
                "Claims that were refused because another node has the message",
            ),
            duplicates: r.plain(
                "fnd_nats_duplicates",
                "Messages that were acknowledged because another one with the same identity has run",
            ),
            skipped: r.plain(
                "fnd_nats_skipped",
                "Messages that were acknowledged because `when` does not hold",
            ),
        }
    }

    /// Forgets the values of functions before they are read.
    pub(crate) fn forget_functions(&self) {
        for values in [&self.pending, &self.here, &self.leases] {
            values.clear();
        }
        for counts in [
            &self.redelivered,
            &self.leases_lost,
            &self.claims_refused,
            &self.duplicates,
            &self.skipped,
        ] {
            counts.clear();
        }
    }
}
