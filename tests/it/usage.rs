//! What functions use now: `GET /v1/usage` and `fndctl top`.

use fnd_core::api::{FunctionUsage, UsageList};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

fn usage(fnd: &Fnd, name: &str) -> FunctionUsage {
    let list: UsageList = fnd.client().get("/v1/usage").json();
    let found = list
        .functions
        .into_iter()
        .find(|function| function.function.as_str() == name);
    found.unwrap()
}

#[test]
fn a_busy_function_is_counted_and_its_limit_holds_it_up() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file(
        "burns.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# cpu = \"100m\"\n# grace = \"1s\"\n# ///\nwhile :; do :; done\n",
    );
    fnd.wait_ready("burns");
    let before = usage(&fnd, "burns");
    assert_eq!((before.running, before.cpu_limit), (0, Some(0.1)), "{before:?}");
    let id = fnd.queue("burns", "");
    let ms = |usage: &FunctionUsage| usage.cpu_ms.unwrap_or_default();
    let first = wait_until("its CPU time to be counted", PATIENCE, || {
        Some(usage(&fnd, "burns")).filter(|now| ms(now) > 0.0 && now.running == 1)
    });
    let later = wait_until("more CPU time, and throttling", PATIENCE, || {
        let throttled = |now: &FunctionUsage| now.throttled_periods > Some(0) && now.throttled_ms > Some(0.0);
        Some(usage(&fnd, "burns")).filter(|now| ms(now) > ms(&first) && throttled(now))
    });
    assert!(later.cpu_periods >= later.throttled_periods, "{later:?}");
    assert!(later.memory_bytes > Some(0) && later.pids > Some(0), "{later:?}");
    fnd.client().post(&format!("/v1/invocations/{id}/cancel"), "");
    fnd.wait_end(id);
    fnd.finish();
}
