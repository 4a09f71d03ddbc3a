//! What functions use now: `GET /v1/usage`; drains that are cancelled; reports of a real history.

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

/// The report of all runs comes first, and the drain last.
#[test]
fn reports_usage_and_drains() {
    let fnd = Fnd::start();
    a_report_adds_up_a_real_history(&fnd);
    a_busy_function_is_counted_and_its_limit_holds_it_up(&fnd);
    a_cancelled_drain_goes_on_with_what_waited(&fnd);
    fnd.finish();
}

fn a_busy_function_is_counted_and_its_limit_holds_it_up(fnd: &Fnd) {
    require!(root, cgroup);
    fnd.drop_file(
        "burns.sh",
        "# /// fnd\n# on_load = false\n# [limits]\n# cpu = \"100m\"\n# grace = \"1s\"\n# ///\nwhile :; do :; done\n",
    );
    fnd.wait_ready("burns");
    let before = usage(fnd, "burns");
    assert_eq!((before.running, before.cpu_limit), (0, Some(0.1)), "{before:?}");
    let id = fnd.queue("burns", "");
    let ms = |usage: &FunctionUsage| usage.cpu_ms.unwrap_or_default();
    let first = wait_until("its CPU time to be counted", PATIENCE, || {
        Some(usage(fnd, "burns")).filter(|now| ms(now) > 0.0 && now.running == 1)
    });
    let later = wait_until("more CPU time, and throttling", PATIENCE, || {
        let throttled = |now: &FunctionUsage| now.throttled_periods > Some(0) && now.throttled_ms > Some(0.0);
        Some(usage(fnd, "burns")).filter(|now| ms(now) > ms(&first) && throttled(now))
    });
    assert!(later.cpu_periods >= later.throttled_periods, "{later:?}");
    assert!(later.memory_bytes > Some(0) && later.pids > Some(0), "{later:?}");
    fnd.client().post(&format!("/v1/invocations/{id}/cancel"), "");
    fnd.wait_end(id);
}

/// What waited runs when a drain is cancelled, and a service starts anew.
fn a_cancelled_drain_goes_on_with_what_waited(fnd: &Fnd) {
    fnd.drop_file("disk.toml", "[service]\n[limits]\ngrace = \"1s\"\n");
    fnd.drop_file("disk.sh", "exec sleep 1000\n");
    fnd.drop_file("says.sh", "# /// fnd\n# on_load = false\n# ///\necho said\n");
    fnd.wait_ready("says");
    let _ = fnd.wait_function("disk", "to run", |function| function.running == 1);
    let run = fnd.ctl(&["drain"]).expect_code(0);
    assert_eq!(run.out().trim(), "drained");
    assert_eq!(fnd.ctl(&["invoke", "says"]).code, 7);
    assert_eq!(fnd.ctl(&["drain", "--cancel"]).expect_code(0).out().trim(), "running");
    assert_eq!(fnd.ctl(&["invoke", "says"]).expect_code(0).out(), "said\n");
    let _ = fnd.wait_function("disk", "to run again", |function| function.running == 1);
    // A second drain works like the first.
    assert_eq!(fnd.ctl(&["drain"]).expect_code(0).out().trim(), "drained");
}

fn a_report_adds_up_a_real_history(fnd: &Fnd) {
    fnd.drop_file(
        "mixed.sh",
        "# /// fnd\n# on_load = false\n# ///\ncase $DATA in *bad*) echo no such host >&2; exit 3;; esac\n",
    );
    fnd.drop_file("never.sh", "# /// fnd\n# on_load = false\n# ///\n:\n");
    fnd.wait_ready("mixed");
    fnd.wait_ready("never");
    for data in ["\"good\"", "\"bad\"", "\"bad\""] {
        let _ = fnd.invoke("mixed", data);
    }
    let report = fnd.ctl(&["report", "-o", "json"]).expect_code(0).json();
    assert_eq!((&report["runs"], &report["failed"]), (&3.into(), &2.into()), "{report}");
    let failure = &report["failures"][0];
    assert_eq!(
        (&failure["reason"], &failure["count"]),
        (&"exit-3".into(), &2.into()),
        "{report}"
    );
    assert_eq!(
        (&failure["message"], &report["idle"][0]),
        (&"no such host".into(), &"never".into()),
        "{report}"
    );
    assert!(report["functions"][0]["cpu_ms"].is_number(), "{report}");
    let page = fnd.ctl(&["report"]).expect_code(0).out();
    assert!(
        page.contains("2 of 3 runs failed") && page.contains("mixed exit-3: no such host"),
        "{page}"
    );
}
