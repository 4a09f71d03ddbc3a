//! fnd as a service of systemd: reload, socket, journal, watchdog.

use crate::guest::PATIENCE;
use crate::machine::{COMMAND, VirtualMachine};

/// A reload waits for its end, and reports an invalid manifest without a failure of the service; serving versions keep
/// serving.
pub(crate) fn reload(machine: &mut VirtualMachine) {
    machine.drop_bash("good", "", "echo fine\n");
    machine.ok("systemctl reload fnd.service");
    machine.drop_file("good.toml", "on_load = false\n[limits]\nmemmory = \"1G\"\n");
    machine.ok("systemctl reload fnd.service");
    machine.ok("systemctl is-active fnd.service");
    // The journal writes with a delay.
    machine.wait_until(
        "the journal to say what is wrong",
        PATIENCE,
        "j=$(journalctl --no-pager -u fnd.service -o cat --since @$(cat /var/fnd-vm-scenario)) && echo \"$j\" && grep -q memmory <<<\"$j\" && grep -qF '`memory`' <<<\"$j\"",
    );
    assert_eq!(machine.invoke("good").code, 0, "the last good version serves");
}

/// After a restart with a typing mistake in the configuration fnd uses the last good one and reports it; functions
/// continue.
pub(crate) fn typing_mistake(machine: &mut VirtualMachine) {
    machine.drop_bash(
        "staying",
        "[limits]\ntimeout = \"1h\"",
        "until [[ -e $STATE_DIRECTORY/go ]]; do sleep 0.2; done\necho done\n",
    );
    let staying = machine.queue("staying");
    machine.wait_invocation(&staying, ".state == \"running\"");
    machine.ok("cp -p /etc/fnd/fnd.toml /root/fnd.toml && sed -i '1i keep_versoins = 3' /etc/fnd/fnd.toml");
    machine.ok("systemctl restart fnd.service && systemctl is-active fnd.service fnd-spawner.service");
    machine.wait_until(
        "the refusal to be said",
        PATIENCE,
        "fndctl status -o json | jq -e '[.problems[] | select(contains(\"keep_versoins\") or contains(\"last good\"))] | length == 2'",
    );
    machine.ok("systemctl status fnd.service | grep -q 'last good one in force'");
    assert_eq!(machine.run("fndctl reload").code, 8);
    assert_ne!(machine.run("systemctl reload fnd.service").code, 0);
    machine.ok("touch /var/lib/fnd/home/staying/go");
    machine.wait_invocation(&staying, ".state == \"succeeded\"");
    machine.ok("cp -p /root/fnd.toml /etc/fnd/fnd.toml && fndctl reload");
    machine.ok("! systemctl status fnd.service | grep -q 'last good one in force'");
}

/// The lines of a function are found by its name and have the id of the run; there are no lines of other functions.
pub(crate) fn journal(machine: &mut VirtualMachine) {
    machine.drop_bash("talker", "", "echo to standard output\necho to standard error >&2\n");
    machine.drop_bash("other", "", "echo of another\n");
    assert_eq!((machine.invoke("talker").code, machine.invoke("other").code), (0, 0));
    let lines = machine.wait_until(
        "the lines to be in the journal",
        PATIENCE,
        "j=$(journalctl --no-pager -o cat FND_FUNCTION=talker _SYSTEMD_UNIT=fnd.service) && grep -q 'standard output' <<<\"$j\" && grep -q 'standard error' <<<\"$j\" && echo \"$j\"",
    );
    assert!(!lines.contains("of another"), "{lines}");
    let id = machine.last_run("talker")["id"].as_str().expect("an id").to_owned();
    let lines = machine.ok(&format!("journalctl --no-pager -o cat FND_INVOCATION={id}"));
    assert!(lines.contains("standard output"), "{lines}");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    machine.ok(&format!(
        "fndctl invoke talker -H traceparent:00-{trace}-00f067aa0ba902b7-01 >/dev/null"
    ));
    // An attempt is a span: one line with what an exporter needs.
    let span =
        "select(.FND_SPAN_ID) | \"\\(.FND_FUNCTION) \\(.FND_PARENT_SPAN_ID) \\(.FND_DURATION_US | tonumber > 0)\"";
    // `jq -e` of Debian 12 is content with no input at all.
    let find = format!("journalctl --no-pager -o json FND_TRACE_ID={trace} | jq -r '{span}' | grep .");
    let spans = machine.wait_until("the span to be in the journal", PATIENCE, &find);
    assert_eq!(spans.trim(), "talker 00f067aa0ba902b7 true");
}

/// A caller that connects while fnd restarts waits in the socket and gets an answer.
pub(crate) fn socket(machine: &mut VirtualMachine) {
    let asking = machine.start("for n in $(seq 30); do fndctl version >/dev/null || exit 1; done");
    for _ in 0..2 {
        machine.ok("systemctl restart fnd.service");
    }
    let asked = machine.wait(&asking, COMMAND);
    assert_eq!(asked.code, 0, "{asked}");
    // If fnd does not run, a connection starts it.
    machine.ok("systemctl stop fnd.service");
    machine.ok("fndctl status && systemctl is-active fnd.service fnd-spawner.service");
}

/// Asks the public listener until a file is there. Each request gets its answer, or 503 with `Retry-After`; a connection
/// that is refused, reset or closed without an answer is an error.
const ASKER: &str = r#"import collections, http.client, os, sys
seen = collections.Counter()
while not os.path.exists("/root/asked-enough"):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=60)
    connection.request("POST", "/web", b"x")
    answer = connection.getresponse()
    body = answer.read()
    if answer.status == 503 and answer.getheader("retry-after"): seen["later"] += 1
    elif answer.status == 200 and body == b"served\n": seen["served"] += 1
    else: sys.exit(f"{answer.status} {body}")
    connection.close()
print(seen["served"], seen["later"])
"#;

/// The sockets of `fnd-http.socket` stay open over restarts of fnd, and their callers are answered.
pub(crate) fn listener(machine: &mut VirtualMachine) {
    machine.drop_bash("web", "[[http]]\npath = \"/web\"\nauth = \"none\"", "echo served\n");
    machine
        .ok("systemctl enable fnd-http.socket && systemctl restart fnd.service && systemctl is-active fnd-http.socket");
    machine.ok(&format!("cat >/root/asker.py <<'EOF'\n{ASKER}EOF"));
    machine.ok("curl -sSf -d x http://127.0.0.1:8080/web | grep -x served");
    let asking = machine.start("python3 /root/asker.py");
    let load = machine.start("wrk -t1 -c2 -d40s --timeout 30s http://127.0.0.1:8080/web");
    for _ in 0..3 {
        machine.ok("systemctl restart fnd.service");
    }
    machine.ok("touch /root/asked-enough");
    // wrk names errors of sockets only where there are some. A connection that fnd closes after its answer is none.
    let load = machine.wait(&load, COMMAND);
    assert_eq!(load.code, 0, "{load}");
    let errors = load
        .out()
        .lines()
        .find(|line| line.contains("Socket errors"))
        .unwrap_or_default()
        .to_owned();
    assert!(
        errors.is_empty() || errors.contains("connect 0, read 0, write 0"),
        "{load}"
    );
    let asked = machine.wait(&asking, COMMAND);
    assert_eq!(asked.code, 0, "{asked}");
    let served: u32 = asked
        .out()
        .split(' ')
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or_default();
    // The machine is slow: most of its requests meet a restart.
    assert!(served > 0, "{asked}");
    machine.ok("systemctl disable fnd-http.socket && systemctl stop fnd.service fnd-http.socket && systemctl start fnd.service");
    machine.ok("fndctl routes | grep -q 'the listener is off'");
}

/// If fnd hangs, the watchdog restarts it.
pub(crate) fn watchdog(machine: &mut VirtualMachine) {
    machine.ok("mkdir -p /etc/systemd/system/fnd.service.d && printf '[Service]\\nWatchdogSec=20s\\nTimeoutAbortSec=2s\\n' >/etc/systemd/system/fnd.service.d/watchdog.conf && systemctl daemon-reload && systemctl restart fnd.service");
    let before = machine.main_pid("fnd.service");
    machine.ok(&format!("kill -STOP {before}"));
    machine.wait_restarted("fnd.service", &before);
    machine.wait_until(
        "the journal to say why",
        PATIENCE,
        "j=$(journalctl --no-pager -u fnd.service -o cat --since @$(cat /var/fnd-vm-scenario)) && echo \"$j\" && grep -q 'Watchdog timeout' <<<\"$j\"",
    );
    machine.ok("fndctl status");
}

/// A journal that reads nothing holds up neither fnd nor a function.
pub(crate) fn journal_stopped(machine: &mut VirtualMachine) {
    machine.drop_bash("chatty", "", "for n in $(seq 500); do echo \"line $n\"; done\n");
    // Otherwise systemd would restart the journal after three minutes, which would end the test's condition.
    machine.ok("systemctl service-watchdogs no");
    machine.ok("systemctl kill --signal STOP --kill-whom main systemd-journald.service");
    // All five within a command's limit.
    let answers = machine.run("for n in 1 2 3 4 5; do timeout 170 fndctl invoke chatty | tail -n 1 || exit 1; done");
    machine.ok("systemctl kill --signal CONT --kill-whom main systemd-journald.service");
    machine.ok("systemctl service-watchdogs yes");
    assert_eq!(answers.code, 0, "{answers}");
    assert_eq!(
        answers.out().lines().filter(|line| *line == "line 500").count(),
        5,
        "{answers}"
    );
    machine.ok("fndctl status && systemctl is-active fnd.service");
}
