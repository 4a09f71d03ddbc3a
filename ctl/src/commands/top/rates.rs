//! The usage of functions between two readings.

use clap::ValueEnum;
use fnd_core::api::{FunctionUsage, UsageList, WaitsFor};
use fnd_core::run::FunctionState;
use jiff::Timestamp;
use serde::Serialize;
use std::cmp::Ordering;

/// The usage of functions in a time, in the form of `-o json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct UsageRates {
    /// When it was read.
    pub(super) at: String,
    /// The time between the two readings.
    pub(super) seconds: f64,
    /// The functions, in their order.
    pub(super) functions: Vec<FunctionRate>,
}

/// The usage of a function. Absent values are unknown: nothing of it runs, or there are no cgroups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FunctionRate {
    pub(super) function: String,
    pub(super) state: FunctionState,
    /// Of one CPU.
    pub(super) cpu_percent: Option<f64>,
    /// `limits.cpu`, of one CPU.
    pub(super) cpu_limit_percent: Option<f64>,
    /// Periods in which its CPU limit held it up, of those in which it had something to run.
    pub(super) throttled_percent: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) pids: Option<u64>,
    pub(super) running: u32,
    pub(super) queued: u32,
    /// The reason why its waiting runs wait although a process is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<WaitsFor>,
    pub(super) runs_per_second: f64,
    pub(super) runs: u64,
    pub(super) failures: u64,
}

/// The order of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RatesOrder {
    /// By CPU, highest first.
    Cpu,
    /// By memory, highest first.
    Memory,
    /// By runs a second, highest first.
    Runs,
    /// By name.
    Name,
}

impl RatesOrder {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Runs => "runs/s",
            Self::Name => "name",
        }
    }
}

impl UsageRates {
    /// Returns the differences of two readings, in an order.
    pub(super) fn between(before: &UsageList, now: &UsageList, order: RatesOrder) -> Self {
        let at = |list: &UsageList| list.at.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond);
        // At least a millisecond, which the API's instants have: the clock may have been set back.
        let elapsed = (at(now) - at(before)).max(1);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a few seconds")]
        let seconds = elapsed as f64 / 1000.0;
        let rate = |now: &FunctionUsage| {
            let before = before.functions.iter().find(|before| before.function == now.function);
            FunctionRate::between(before, now, seconds)
        };
        let mut rates = Self {
            at: now.at.clone(),
            seconds,
            functions: now.functions.iter().map(rate).collect(),
        };
        rates.sort(order);
        rates
    }

    /// Puts the functions in an order; equal ones stay in the order of their names.
    pub(super) fn sort(&mut self, order: RatesOrder) {
        self.functions.sort_by(|a, b| a.function.cmp(&b.function));
        let highest = |a: Option<f64>, b: Option<f64>| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
        match order {
            RatesOrder::Cpu => self.functions.sort_by(|a, b| highest(a.cpu_percent, b.cpu_percent)),
            RatesOrder::Memory => self.functions.sort_by_key(|rate| std::cmp::Reverse(rate.memory_bytes)),
            RatesOrder::Runs => {
                let runs = |rate: &FunctionRate| Some(rate.runs_per_second);
                self.functions.sort_by(|a, b| highest(runs(a), runs(b)));
            }
            RatesOrder::Name => {}
        }
    }
}

impl FunctionRate {
    fn between(before: Option<&FunctionUsage>, now: &FunctionUsage, seconds: f64) -> Self {
        // A counter that is lower than before began again: with a cgroup that was made anew, or a new function.
        let more = |before: Option<f64>, now: Option<f64>| {
            let before = before.unwrap_or(0.0);
            now.map(|now| if now < before { now } else { now - before })
        };
        #[expect(clippy::cast_precision_loss, reason = "counters of a few seconds")]
        let count = |before: Option<u64>, now: Option<u64>| {
            let before = before.unwrap_or(0);
            now.map(|now| now.checked_sub(before).unwrap_or(now) as f64)
        };
        // A function that was not there before has no difference.
        let earlier = before.unwrap_or(now);
        let cpu_ms = more(earlier.cpu_ms, now.cpu_ms);
        let periods = count(earlier.cpu_periods, now.cpu_periods);
        let throttled = count(earlier.throttled_periods, now.throttled_periods);
        let share = |(throttled, periods): (f64, f64)| match periods > 0.0 {
            true => throttled / periods * 100.0,
            false => 0.0,
        };
        Self {
            function: now.function.to_string(),
            state: now.state,
            cpu_percent: cpu_ms.map(|ms| tenths(ms / seconds / 10.0)),
            cpu_limit_percent: now.cpu_limit.map(|limit| limit * 100.0),
            throttled_percent: throttled.zip(periods).map(share).map(tenths),
            memory_bytes: now.memory_bytes,
            memory_limit_bytes: now.memory_limit_bytes,
            pids: now.pids,
            running: now.running,
            queued: now.queued,
            waits_for: now.waits_for.clone(),
            runs_per_second: tenths(count(Some(earlier.runs), Some(now.runs)).unwrap_or(0.0) / seconds),
            runs: now.runs,
            failures: now.failures,
        }
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn reading(second: u32, functions: &[(&str, Option<f64>, u64)]) -> UsageList {
        let functions = functions.iter().map(|(name, cpu_ms, runs)| {
            serde_json::from_value(serde_json::json!({
                "function": name, "state": "ready", "running": 1, "queued": 0, "runs": runs, "failures": 0,
                "cpu_ms": cpu_ms, "cpu_limit": 0.5, "cpu_periods": runs, "throttled_periods": runs / 2, "throttled_ms": 0.0,
                "memory_bytes": runs << 20, "memory_limit_bytes": 256 << 20, "pids": 2,
            }))
            .unwrap()
        });
        UsageList {
            at: format!("2026-11-21T08:00:{second:02}.000Z"),
            functions: functions.collect(),
        }
    }

    /// Returns the rates of a few functions, for tests of what is drawn.
    pub(in crate::commands::top) fn rates() -> UsageRates {
        let before = reading(
            0,
            &[
                ("idle", None, 0),
                ("hello", Some(100.0), 4),
                ("ops/backup", Some(900.0), 8),
            ],
        );
        let now = reading(
            2,
            &[
                ("idle", None, 0),
                ("hello", Some(350.0), 10),
                ("ops/backup", Some(300.0), 8),
            ],
        );
        UsageRates::between(&before, &now, RatesOrder::Cpu)
    }

    #[test]
    fn rates_are_differences_and_counters_may_begin_again() {
        let rates = rates();
        let cpu: Vec<_> = rates
            .functions
            .iter()
            .map(|rate| (rate.function.as_str(), rate.cpu_percent))
            .collect();
        assert_eq!(cpu, [("ops/backup", Some(15.0)), ("hello", Some(12.5)), ("idle", None)]);
        let hello = &rates.functions[1];
        assert_eq!((hello.runs_per_second, hello.throttled_percent), (3.0, Some(50.0)));
        assert_eq!((rates.seconds, hello.cpu_limit_percent), (2.0, Some(50.0)));
        // Of a function that is new nothing is known but what it uses now.
        let new = UsageRates::between(
            &reading(0, &[]),
            &reading(1, &[("new", Some(500.0), 7)]),
            RatesOrder::Cpu,
        );
        assert_eq!(
            (new.functions[0].cpu_percent, new.functions[0].runs_per_second),
            (Some(0.0), 0.0)
        );
        // The clock was set back.
        assert!(UsageRates::between(&reading(9, &[]), &reading(1, &[]), RatesOrder::Cpu).seconds > 0.0);
    }

    #[test]
    fn orders() {
        let mut rates = rates();
        for (order, expected) in [
            (RatesOrder::Cpu, ["ops/backup", "hello", "idle"]),
            (RatesOrder::Memory, ["hello", "ops/backup", "idle"]),
            (RatesOrder::Runs, ["hello", "idle", "ops/backup"]),
            (RatesOrder::Name, ["hello", "idle", "ops/backup"]),
        ] {
            rates.sort(order);
            let names: Vec<_> = rates.functions.iter().map(|rate| rate.function.as_str()).collect();
            assert_eq!(names, expected, "{order:?}");
        }
    }
}
