//! Measures the cost of a call: `cargo test -p fnd-tests --test conformance -- --ignored --nocapture round_trip`.

use crate::runtimes;
use crate::worker::{Call, Worker};
use fnd_tests::wait::now;
use std::time::Duration;

#[test]
#[ignore = "a measurement, not a test"]
fn round_trip() {
    println!("{:8} {:>10} {:>10} {:>10}", "runtime", "ready ms", "p50 us", "p99 us");
    for runtime in runtimes::all() {
        let entry = runtime.function("echo").unwrap();
        let start = now();
        let (mut worker, _) = Worker::serve(&runtime, &entry);
        let ready = start.elapsed();
        let calls = if runtime.id == "bash" { 400 } else { 4000 };
        let mut times: Vec<Duration> = (0..calls)
            .map(|_| {
                let start = now();
                worker.call(&Call::json(r#"{"a":1}"#));
                start.elapsed()
            })
            .skip(calls / 4)
            .collect();
        times.sort();
        let at = |share: usize| times[times.len() * share / 100].as_micros();
        println!(
            "{:8} {:>10} {:>10} {:>10}",
            runtime.id,
            ready.as_millis(),
            at(50),
            at(99)
        );
    }
}
