//! Samples the values of NATS for a scrape.

use crate::metrics::{Labels, Metrics, number};
use crate::triggers::nats::NatsFigures;

/// Samples the connection and the messages of each function; without `[events.nats]` no function has values.
pub(super) fn sample(metrics: &mut Metrics, figures: Option<&NatsFigures>) {
    metrics.sampled.nats.forget_functions();
    let is_connected = figures.is_some_and(|figures| figures.connected);
    let round_trip = figures.and_then(|figures| figures.round_trip).unwrap_or_default();
    metrics.sampled.nats.connected.set(f64::from(is_connected));
    metrics.sampled.nats.round_trip.set(round_trip.as_secs_f64());
    for figures in figures.into_iter().flat_map(|figures| &figures.functions) {
        let own = Labels(Some(metrics.label(&figures.function)), None);
        let nats = &metrics.sampled.nats;
        let values = [
            (&nats.pending, figures.pending),
            (&nats.here, Some(figures.here)),
            (&nats.leases, Some(figures.leases)),
        ];
        // Added, not set: functions beyond the most share one label.
        for (family, value) in values {
            if let Some(value) = value {
                family.get_or_create(&own).inc_by(number(value));
            }
        }
        let counters = &figures.counters;
        for (family, count) in [
            (&nats.redelivered, counters.redelivered),
            (&nats.leases_lost, counters.leases_lost),
            (&nats.claims_refused, counters.claims_refused),
            (&nats.duplicates, counters.duplicates),
            (&nats.skipped, counters.skipped),
        ] {
            family.get_or_create(&own).inc_by(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::text;
    use crate::triggers::nats::{FunctionFigures, MessageCounters};
    use fnd_wire::ids::FunctionName;
    use std::time::Duration;

    fn lines(metrics: &Metrics) -> Vec<String> {
        let text = text(metrics);
        let lines = text.lines().filter(|line| line.starts_with("fnd_nats_"));
        lines.map(str::to_owned).collect()
    }

    fn figures(function: &str) -> NatsFigures {
        let function = FunctionFigures {
            function: FunctionName::new(function).unwrap(),
            pending: None,
            here: 3,
            leases: 2,
            counters: MessageCounters {
                redelivered: 7,
                ..MessageCounters::default()
            },
        };
        NatsFigures {
            connected: true,
            round_trip: Some(Duration::from_millis(2)),
            functions: vec![function],
        }
    }

    #[test]
    fn what_is_not_known_has_no_series_and_what_did_not_happen_has_0() {
        let mut metrics = Metrics::new();
        sample(&mut metrics, Some(&figures("orders")));
        sample(&mut metrics, Some(&figures("orders")));
        let lines = lines(&metrics);
        for line in [
            "fnd_nats_connected 1.0",
            "fnd_nats_round_trip_seconds 0.002",
            r#"fnd_nats_here{function="orders"} 3.0"#,
            r#"fnd_nats_leases{function="orders"} 2.0"#,
            r#"fnd_nats_redelivered_total{function="orders"} 7"#,
            r#"fnd_nats_leases_lost_total{function="orders"} 0"#,
            r#"fnd_nats_claims_refused_total{function="orders"} 0"#,
            r#"fnd_nats_duplicates_total{function="orders"} 0"#,
            r#"fnd_nats_skipped_total{function="orders"} 0"#,
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:#?}");
        }
        assert!(
            !lines.iter().any(|line| line.starts_with("fnd_nats_pending")),
            "{lines:#?}"
        );
    }

    #[test]
    fn without_nats_no_function_has_a_value() {
        let mut metrics = Metrics::new();
        sample(&mut metrics, Some(&figures("orders")));
        sample(&mut metrics, None);
        assert_eq!(
            lines(&metrics),
            ["fnd_nats_connected 0.0", "fnd_nats_round_trip_seconds 0.0"]
        );
    }
}
