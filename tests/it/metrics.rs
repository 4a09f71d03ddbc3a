//! Metrics: what they count, where they are available, and the rules and the dashboard that are shipped for them.

use fnd_tests::programs::{promtool, repository};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

const HELLO: &str = "# /// fnd\n# on_load = false\n# ///\ndef handler(event, context):\n    return 1\n";
const FLAKY: &str = "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"50ms\"\n# ///\nexit 3\n";

/// Returns a free address, with a port that neither the kernel nor fnd gives to others meanwhile.
pub(crate) fn free_address() -> SocketAddr {
    let first = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (first..20_000).chain(10_000..first).find(free).unwrap();
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Sends the bytes of a request to an address and returns head and body of the answer.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_lowercase(), body.to_owned())
}

fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n\r\n"),
    )
}

/// Returns the value of a series.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}"))
        .parse()
        .unwrap()
}

#[track_caller]
fn promtool_takes(arguments: &[&str], input: &str) {
    let mut child = Command::new(promtool().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {printed}\n{input}");
    // promtool also exits with 0 if it only gives advice.
    assert!(output.stderr.is_empty(), "{arguments:?}: {printed}");
}

/// An fnd that has run a function of each kind.
fn busy(config: &str) -> Fnd {
    let fnd = Fnd::start_with(
        &Setup::default()
            .config(config)
            .file("hello.py", HELLO)
            .file("flaky.sh", FLAKY),
    );
    fnd.wait_ready("hello");
    fnd.wait_ready("flaky");
    for _ in 0..3 {
        let _ = fnd.run("hello", "{}");
    }
    fnd.wait_end(fnd.queue("flaky", ""));
    fnd
}

#[test]
fn what_ran_is_counted_and_promtool_takes_it_from_each_place() {
    require!(promtool);
    let directory = tempfile::tempdir().unwrap();
    let textfile = directory.path().join("fnd.prom");
    let address = free_address();
    let config = format!(
        "[metrics]\nlisten = \"{address}\"\ntextfile = \"{}\"\n",
        textfile.display()
    );
    let fnd = busy(&config);
    wait_until("the listener", PATIENCE, || TcpStream::connect(address).ok());
    let (head, text) = get(address, "/metrics", "*/*");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    for (series, expected) in [
        ("function_calls_total{function=\"hello\",method=\"POST\"}", 3.0),
        ("function_calls_total{function=\"flaky\",method=\"POST\"}", 1.0),
        ("function_failures_total{function=\"flaky\",method=\"POST\"}", 1.0),
        (
            "function_duration_seconds_count{function=\"hello\",method=\"POST\"}",
            3.0,
        ),
        ("fnd_attempts_total{function=\"flaky\",reason=\"exit\"}", 2.0),
        ("fnd_invocations_total{function=\"hello\",state=\"succeeded\"}", 3.0),
        ("fnd_retries_total{function=\"flaky\"}", 1.0),
        ("fnd_gave_up_total{function=\"flaky\"}", 1.0),
        ("fnd_cold_starts_total{function=\"hello\"}", 1.0),
        ("fnd_cold_starts_total{function=\"flaky\"}", 2.0),
        ("fnd_queue_depth{function=\"hello\"}", 0.0),
        ("fnd_workers{function=\"hello\",state=\"idle\"}", 1.0),
        ("fnd_functions{state=\"ready\"}", 2.0),
        ("fnd_functions_with_errors", 0.0),
        ("fnd_spawner_up", 1.0),
        ("fnd_history_failing", 0.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    assert!(value(&text, "process_open_fds") > 3.0);
    assert!(!text.contains("hello\",method=\"GET"), "a scrape is no call");
    promtool_takes(&["check", "metrics"], &text);

    let answer = fnd.client().get("/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    promtool_takes(&["check", "metrics"], &answer.text());
    let accept = (
        "accept",
        "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5",
    );
    let answer = fnd.client().call("GET", "/metrics", &[accept], b"");
    let open = Some("application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert_eq!(answer.header("content-type"), open);
    let text = answer.text();
    assert!(
        text.ends_with("# EOF\n") && text.contains("# TYPE function_calls counter\n"),
        "{text}"
    );
    assert!(text.contains("# UNIT function_duration_seconds seconds\n"), "{text}");
    // The first reload, at the start.
    let written = fs::read_to_string(&textfile).unwrap();
    promtool_takes(&["check", "metrics"], &written);
    fnd.finish();
}

#[test]
fn a_function_that_is_deleted_takes_its_series_with_it() {
    let fnd = busy("");
    let text = || fnd.client().get("/metrics").text();
    assert!(text().contains("function=\"flaky\""));
    fnd.remove("flaky.sh");
    fnd.wait_gone("flaky");
    wait_until("its series to be gone", PATIENCE, || {
        (!text().contains("function=\"flaky\"")).then_some(())
    });
    assert!(text().contains("function=\"hello\""));
    fnd.finish();
}

#[test]
fn a_hostile_client_of_the_listener_gets_little_and_keeps_nobody_out() {
    let address = free_address();
    let fnd = Fnd::start_with(&Setup::default().config(&format!("[metrics]\nlisten = \"{address}\"\n")));
    wait_until("the listener", PATIENCE, || TcpStream::connect(address).ok());
    let status = |(head, _): (String, String)| head.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(get(address, "/", "*/*")), "404");
    assert_eq!(status(get(address, "/v1/status", "*/*")), "404");
    assert_eq!(
        status(ask(
            address,
            "POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
        )),
        "405"
    );
    assert_eq!(status(ask(address, "nonsense\r\n\r\n")), "400");
    let long = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(status(ask(address, &long)), "431");
    // Connections without a request are closed soon, which frees their places; one connection above the limit is closed
    // at once.
    let idle: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(address).unwrap()).collect();
    wait_until("a place to be free", PATIENCE, || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.starts_with("HTTP/1.1 200").then_some(())
    });
    drop(idle);
    assert!(fnd.client().get("/healthz").status.is_success());
    fnd.finish();
}

#[test]
fn a_reload_moves_the_listener_and_an_unavailable_address_is_reported() {
    let first = free_address();
    let held = TcpListener::bind(first).unwrap();
    let second = free_address();
    drop(held);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let fnd = Fnd::start_with(&Setup::default().config(&format!("[metrics]\nlisten = \"{first}\"\n")));
    let serves = |address| TcpStream::connect(address).is_ok();
    wait_until("the listener", PATIENCE, || serves(first).then_some(()));
    let reload = |text: &str| {
        fs::write(fnd.path("fnd.toml"), text).unwrap();
        assert_eq!(fnd.ctl(&["reload"]).code, 0);
    };
    reload(&format!("[metrics]\nlisten = \"{second}\"\n"));
    wait_until("the other listener", PATIENCE, || {
        (serves(second) && !serves(first)).then_some(())
    });
    reload(&format!(
        "[metrics]\nlisten = \"{}\"\ntextfile = \"/no-such-directory/fnd.prom\"\n",
        taken.local_addr().unwrap()
    ));
    let _ = fnd.wait_problem("(metrics.listen): Address already in use");
    let _ = fnd.wait_problem("failed to write `/no-such-directory/fnd.prom` (metrics.textfile)");
    reload("");
    wait_until("nothing to be wrong", PATIENCE, || {
        fnd.status().problems.is_empty().then_some(())
    });
    fs::write(fnd.path("fnd.toml"), "[metrics]\nlisten = \"localhost\"\n").unwrap();
    let run = fnd.ctl(&["reload"]);
    assert!(run.to_string().contains("an IP address and a port"), "{run}");
    fnd.finish();
}

/// Returns every metric that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = |word: &&str| {
        ["fnd_", "function_", "process_"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    };
    words.filter(ours).map(str::to_owned).collect()
}

#[test]
fn shipped_rules_and_the_dashboard_ask_for_metrics_that_there_are() {
    require!(promtool, cgroup);
    let packaging = repository().join("packaging");
    let read = |path: &str| fs::read_to_string(packaging.join(path)).unwrap();
    let path = |path: &str| packaging.join(path).display().to_string();
    promtool_takes(&["check", "rules", &path("prometheus/alerts.yml")], "");
    promtool_takes(
        &["check", "config", "--syntax-only", &path("prometheus/scrape.yml")],
        "",
    );

    // Every metric family appears with its name, if something has a value of it.
    let fnd = busy("[events.nats]\nservers = \"nats://127.0.0.1:9\"\n");
    let takes = "# /// fnd\n# [[nats]]\n# subject = \"orders.>\"\n# stream = \"ORDERS\"\n# ///\n:\n";
    fnd.drop_file("takes.sh", takes);
    let directory = fnd.shared_directory("in");
    let watches = format!(
        "# /// fnd\n# [[file]]\n# path = \"{}\"\n# ///\n:\n",
        directory.display()
    );
    fnd.drop_file("watches.sh", &watches);
    let served = wait_until("the files that wait, and the messages", PATIENCE, || {
        let served = fnd.client().get("/metrics").text();
        let families = ["fnd_files_waiting{", "fnd_nats_here{"];
        families.iter().all(|family| served.contains(family)).then_some(served)
    });
    fnd.finish();
    let types: Vec<&str> = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let known = |name: &str| {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        types.contains(&family)
    };
    let board: serde_json::Value = serde_json::from_str(&read("grafana/fnd.json")).unwrap();
    let mut asked = named(&read("prometheus/alerts.yml"));
    let panels = board["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        asked.extend(named(target["expr"].as_str().unwrap()));
    }
    for variable in board["templating"]["list"].as_array().unwrap() {
        asked.extend(named(variable["query"]["query"].as_str().unwrap_or_default()));
    }
    assert!(asked.len() > 15, "{asked:?}");
    for name in asked {
        assert!(known(&name), "{name} is asked for, and not served");
    }
    // The document names every metric, and no other.
    let document = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rows: String = document
        .lines()
        .filter(|line| line.starts_with("- `"))
        .collect::<Vec<_>>()
        .join("\n");
    for name in types.iter().filter(|name| !name.starts_with("process_")) {
        assert!(
            rows.contains(&format!("`{name}`")),
            "docs/metrics.md does not describe {name}"
        );
    }
    // Only a server of NATS knows how many messages wait there.
    let elsewhere = ["process_", "fnd_nats_pending"];
    for name in named(&rows).iter().filter(|name| !elsewhere.contains(&name.as_str())) {
        assert!(known(name), "docs/metrics.md describes {name}, which is not served");
    }
}

/// Returns a text as series of promtool's tests: each value of `first`, then that of `then` for hours. Histograms are left
/// out: no rule that is tested here asks for them.
fn recorded(first: &str, then: &str) -> String {
    let mut series = String::new();
    for line in then.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ').filter(|(name, _)| !name.contains("_bucket")) else {
            continue;
        };
        // A value that was not there is `_`.
        let before = first
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let before = before.unwrap_or("_");
        series += &format!("    - series: '{name}'\n      values: '{before} {value} {value}x200'\n");
    }
    series
}

/// A nightly job without `[retry]` fails once: the shipped rules see it, and that no run of it has ever succeeded.
#[test]
fn the_shipped_rules_fire_for_a_nightly_job_that_fails() {
    require!(promtool);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    for (name, code) in [("nightly", "exit 1\n"), ("fine", "true\n")] {
        fnd.drop_file(
            &format!("{name}.sh"),
            &format!("# /// fnd\n# on_load = false\n# ///\n{code}"),
        );
        fnd.wait_ready(name);
    }
    let metrics = |fnd: &Fnd| fnd.client().get("/metrics").text();
    let before = metrics(&fnd);
    assert_eq!(value(&before, "fnd_gave_up_total{function=\"nightly\"}"), 0.0);
    assert!(!before.contains("fnd_last_run_failed{"), "nothing has run: {before}");
    for name in ["nightly", "fine"] {
        fnd.wait_end(fnd.queue(name, ""));
    }
    let after = metrics(&fnd);
    for (series, expected) in [
        ("fnd_gave_up_total{function=\"nightly\"}", 1.0),
        ("fnd_gave_up_total{function=\"fine\"}", 0.0),
        ("fnd_dead_letters{function=\"nightly\"}", 1.0),
        ("fnd_last_run_failed{function=\"nightly\"}", 1.0),
        ("fnd_last_run_failed{function=\"fine\"}", 0.0),
        ("fnd_last_success_timestamp_seconds{function=\"nightly\"}", 0.0),
    ] {
        assert_eq!(value(&after, series), expected, "{series}");
    }
    assert!(value(&after, "fnd_last_success_timestamp_seconds{function=\"fine\"}") > 1e9);
    let rules = repository().join("packaging/prometheus/alerts.yml");
    let firing = |alert: &str| {
        format!("          - labels: '{{alertname=\"{alert}\", function=\"nightly\"}}'\n            value: 1\n")
    };
    let at = |time: &str, alerts: &[&str]| {
        let samples: String = alerts.iter().map(|alert| firing(alert)).collect();
        format!(
            "      - expr: count by (alertname, function) (ALERTS{{alertstate=\"firing\"}})\n        eval_time: {time}\n        \
             exp_samples:\n{samples}"
        )
    };
    let test = format!(
        "rule_files: ['{}']\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n{}    promql_expr_test:\n{}{}",
        rules.display(),
        recorded(&before, &after),
        at("10m", &["FndFunctionGaveUp"]),
        at(
            "90m",
            &[
                "FndDeadLetters",
                "FndFunctionLastRunFailed",
                "FndFunctionNeverSucceeded"
            ]
        ),
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("recorded.yml");
    fs::write(&file, test).unwrap();
    promtool_takes(&["test", "rules", file.to_str().unwrap()], "");
    // The next fnd continues with what the history knows.
    fnd.wait_end(fnd.queue("fine", ""));
    let success = value(&metrics(&fnd), "fnd_last_success_timestamp_seconds{function=\"fine\"}");
    fnd.drop_file("fine.sh", "# /// fnd\n# on_load = false\n# ///\nexit 1\n");
    wait_until("the new code", PATIENCE, || {
        let end = fnd.wait_end(fnd.queue("fine", ""));
        end.reason
            .is_some_and(|reason| reason.to_string() == "exit-1")
            .then_some(())
    });
    let at_least = value(&metrics(&fnd), "fnd_last_success_timestamp_seconds{function=\"fine\"}");
    fnd.replace(nix::sys::signal::Signal::SIGTERM);
    fnd.wait_ready("fine");
    let now = value(&metrics(&fnd), "fnd_last_success_timestamp_seconds{function=\"fine\"}");
    assert!(
        success <= at_least && (now - at_least).abs() < 1.0,
        "{success} {at_least} {now}"
    );
    assert_eq!(
        value(
            &metrics(&fnd),
            "fnd_last_success_timestamp_seconds{function=\"nightly\"}"
        ),
        0.0
    );
    fnd.finish();
}
