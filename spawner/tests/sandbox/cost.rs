//! Measures starts: `cargo nextest run -E 'test(cost::)' --run-ignored only --no-capture`.

use crate::common::{Harness, privileged};
use crate::{PROFILES, start};
use fnd_spawner::clock::now;
use fnd_wire::frame::Installed;
use std::time::Duration;

const STARTS: usize = 200;
const FIRST: usize = 20;

fn one(harness: &mut Harness, installed: &Installed) -> Duration {
    let began = now();
    let (worker, number) = harness.order(installed, None, &[]);
    let _descriptors = harness.spawned(number);
    harness.exited(worker);
    now().saturating_sub(began)
}

/// Returns the median and the 95th of 100 in milliseconds.
fn figures(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    (at(50), at(95))
}

#[test]
#[ignore = "it measures"]
fn starts_in_each_profile() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let cases = PROFILES.into_iter().rev().map(|profile| (profile, "")).chain([("strict", "\nnetwork=loopback")]);
    for (profile, more) in cases {
        let lines = format!("exec=1\nprofile={profile}{more}");
        let mut firsts = Vec::new();
        let mut installed = None;
        for number in 0..FIRST {
            // Another version, so another launcher.
            let name = format!("{profile}{}-{number}.sh", more.len());
            let program = harness.write(&name, "#!/bin/true\n");
            std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let version = harness.install(&name, "#!/bin/true\n", &lines);
            firsts.push(one(&mut harness, &version));
            installed = Some(version);
        }
        let installed = installed.unwrap();
        let times = (0..STARTS).map(|_| one(&mut harness, &installed)).collect();
        let ((start, slow), (first, first_slow)) = (figures(times), figures(firsts));
        println!(
            "{profile}{}: start p50 {start:.2} ms, p95 {slow:.2} ms; first p50 {first:.2} ms, p95 {first_slow:.2} ms",
            more.replace('\n', " ")
        );
    }
}
