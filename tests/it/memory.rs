//! The current memory use of running functions, beside the peak of the last attempt.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

#[test]
fn a_running_function_shows_what_it_uses_now() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let code = "import time\ndata = bytearray(50 << 20)\nfor n in range(0, len(data), 4096):\n    data[n] = 1\ntime.sleep(1000)\n";
    fnd.drop_file(
        "holds.toml",
        "on_load = false\n[limits]\nmemory = \"200M\"\ngrace = \"1s\"\n",
    );
    fnd.drop_file("holds.py", code);
    fnd.wait_ready("holds");
    assert_eq!(fnd.function("holds").unwrap().memory_bytes, None, "nothing runs");
    let id = fnd.queue("holds", "");
    let held = |bytes: &u64| (50 << 20..200 << 20).contains(bytes);
    let now = wait_until("its memory to be shown", PATIENCE, || {
        fnd.function("holds")?.memory_bytes.filter(held)
    });
    let node = fnd.status();
    assert!(
        node.functions[0].memory_bytes.as_ref().is_some_and(held),
        "{now} {node:?}"
    );
    let table = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(table.contains("M/-"), "now, and no peak yet:\n{table}");
    let shown = fnd.ctl(&["show", "holds"]).expect_code(0).out();
    let line = shown
        .lines()
        .find(|line| line.starts_with("memory  "))
        .unwrap_or_default();
    let mebibytes = line.split_whitespace().nth(1).and_then(|word| word.strip_suffix('M'));
    let mebibytes: f64 = mebibytes.and_then(|number| number.parse().ok()).unwrap_or_default();
    assert!((50.0..200.0).contains(&mebibytes) && line.contains("M now"), "{shown}");
    fnd.client().post(&format!("/v1/invocations/{id}/cancel"), "");
    fnd.wait_end(id);
    let ended = fnd.function("holds").unwrap();
    assert_eq!(ended.memory_bytes, None);
    assert!(ended.memory_peak_bytes.as_ref().is_some_and(held), "{ended:?}");
    fnd.finish();
}
