//! Functions outlive fnd: its restart, its crash, its upgrade.

use crate::guest::{PATIENCE, text};
use crate::machine::{COMMAND, VirtualMachine};
use std::time::Duration;

/// Writes its own journal: a line at the beginning and one at the end of each attempt.
const COUNTED: &str = "echo \"begin $FND_INVOCATION\" >>\"$STATE_DIRECTORY/journal\"\necho said\nsleep 0.$((RANDOM % 10))\necho \"end $FND_INVOCATION\" >>\"$STATE_DIRECTORY/journal\"\n";

/// Runs until a file appears.
const STAYING: &str = "echo begun\nuntil [[ -e $STATE_DIRECTORY/go ]]; do sleep 0.2; done\necho done\nexit 3\n";

/// Compares the function's journal with the history; prints the findings, then the number of runs.
const COMPARE: &str = r#"python3 - <<'EOF'
import collections, json, subprocess
journal = [line.split() for line in open("/var/lib/fnd/home/counted/journal")]
begun = collections.Counter(id for word, id in journal if word == "begin")
ended = collections.Counter(id for word, id in journal if word == "end")
accepted = [json.loads(line)["id"] for line in open("/run/accepted") if line.strip()]
history = json.loads(subprocess.check_output(["fndctl", "history", "counted", "--limit", "1000", "-o", "json"]))
states = {row["id"]: (row["state"], row["attempts"]) for row in history["invocations"]}
wrong = [f"{id} ran {n} times" for id, n in begun.items() if n != 1]
wrong += [f"{id} did not end" for id in begun if ended[id] != 1]
wrong += [f"{id} ran and is {states.get(id)}" for id in begun if states.get(id) != ("succeeded", 1)]
# Killed between the claim and the order to start, an fnd leaves what never began.
wrong += [f"{id} was accepted and is {states.get(id)}" for id in accepted if id not in begun and states.get(id, [0])[0] != "interrupted"]
print("\n".join(wrong) or f"fine: {len(accepted)} accepted, {len(begun)} run")
EOF"#;

/// 20 restarts and 20 kills under load: running attempts continue, and no run is lost, doubled or stuck.
pub(crate) fn restarts_and_kills(machine: &mut VirtualMachine) {
    machine.drop_bash("counted", "[pool]\nmax = 4\n[queue]\nmax = 1000", COUNTED);
    machine.drop_bash("staying", "[limits]\ntimeout = \"1h\"", STAYING);
    // Another scenario may have left it: the home stays.
    machine.ok("rm -f /var/lib/fnd/home/staying/go");
    let staying = machine.queue("staying");
    machine.wait_invocation(&staying, ".state == \"running\"");
    machine.ok("rm -f /run/accepted /run/enough");
    // A call that is refused, or has no answer because fnd was killed, does not count as accepted; all others are
    // written down. Pauses leave emulated CPUs to fnd. The loop ends at 900: the history keeps 1000 runs, and calls
    // without an answer are among them.
    let load = machine.start(
        "n=0; until [[ -e /run/enough || $n -ge 900 ]]; do fndctl invoke --async -o json counted 2>/dev/null | jq -ce . >>/run/accepted && n=$((n + 1)); sleep 0.1; done",
    );
    machine.wait_until("something to be accepted", PATIENCE, "test -s /run/accepted");
    for _ in 0..20 {
        machine.ok("systemctl restart fnd.service");
    }
    for _ in 0..20 {
        let fnd = machine.main_pid("fnd.service");
        machine.ok(&format!("kill -KILL {fnd}"));
        machine.wait_restarted("fnd.service", &fnd);
        machine.ok("fndctl status");
    }
    machine.ok("touch /run/enough");
    assert_eq!(machine.wait(&load, COMMAND).code, 0);
    machine.wait_until(
        "all of it to end",
        Duration::from_secs(900),
        "fndctl status -o json | jq -e '.running == 1 and .queued == 0'",
    );
    let compared = machine.ok(COMPARE);
    assert!(compared.starts_with("fine: "), "{compared}");
    machine.ok("touch /var/lib/fnd/home/staying/go");
    let run = machine.wait_invocation(&staying, ".ended_at != null");
    assert_eq!(
        (text(&run, "reason"), run["attempts"].as_u64()),
        ("exit-3", Some(1)),
        "{run}"
    );
    let logs = machine.ok("fndctl logs staying");
    assert!(logs.contains("begun") && logs.contains("done"), "{logs}");
    // The kernel may take a moment for the group of a process that has just ended, with the CPUs that these restarts leave.
    machine.wait_nothing_left();
}

/// An upgrade and a downgrade restart fnd, but neither the spawner nor functions. The other version is the older
/// package in `FND_VM_OLDER`, else the same version packed anew. An older fnd may refuse the history of this one, so from
/// an older package there is only the upgrade, which begins without a history. From 0.1.0 it ends what runs.
pub(crate) fn upgrade(machine: &mut VirtualMachine) {
    const OTHER: &str = "/payload/other.deb";
    const OWN: &str = "/payload/fnd.deb";
    let version = |package: &str| machine.ok(&format!("dpkg-deb --field {package} Version"));
    let is_lower = |one: &str, other: &str| {
        let compared = machine.run(&format!("dpkg --compare-versions {one} lt {other}"));
        compared.code == 0
    };
    let is_older = is_lower(&version(OTHER), &version(OWN));
    let is_of_0_1 = is_lower(&version(OTHER), "0.2.0");
    if is_older {
        machine.ok("dpkg --purge fnd");
    }
    machine.ok(&format!("dpkg --install {OTHER}"));
    machine.drop_bash("staying", "[limits]\ntimeout = \"1h\"", STAYING);
    machine.ok("rm -f /var/lib/fnd/home/staying/go");
    // There and back, each time with a function that began under the version before.
    let ways = [(OTHER, OWN), (OWN, OTHER)];
    for (from, to) in ways.into_iter().take(if is_older { 1 } else { 2 }) {
        // With the spawner of the version it goes on from: an upgrade leaves that running.
        machine.ok("systemctl stop fnd.service && systemctl start fnd.service");
        machine.wait_ready("staying");
        let staying = machine.queue("staying");
        machine.wait_invocation(&staying, ".state == \"running\"");
        let (fnd, spawner) = (machine.main_pid("fnd.service"), machine.main_pid("fnd-spawner.service"));
        machine.ok(&format!("dpkg --install {to}"));
        machine.wait_restarted("fnd.service", &fnd);
        if is_of_0_1 {
            assert_ne!(machine.main_pid("fnd-spawner.service"), spawner);
            let run = machine.wait_invocation(&staying, ".ended_at != null");
            assert_eq!(text(&run, "reason"), "interrupted", "{run}");
            machine.wait_ready("staying");
            continue;
        }
        assert_eq!(machine.main_pid("fnd-spawner.service"), spawner, "{from} to {to}");
        machine.wait_invocation(&staying, ".state == \"running\"");
        machine.ok("touch /var/lib/fnd/home/staying/go");
        let run = machine.wait_invocation(&staying, ".ended_at != null");
        assert_eq!(
            (text(&run, "reason"), run["attempts"].as_u64()),
            ("exit-3", Some(1)),
            "{from} to {to}: {run}"
        );
        let logs = machine.ok(&format!("fndctl logs --id {staying}"));
        assert!(
            logs.contains("begun") && logs.contains("done"),
            "{from} to {to}: {logs}"
        );
        machine.ok("rm /var/lib/fnd/home/staying/go");
        machine.nothing_left();
    }
    machine.ok(&format!("systemctl stop fnd.service && dpkg --install {OWN}"));
}

/// State of a newer fnd is refused and not changed, and running functions continue.
pub(crate) fn newer_state(machine: &mut VirtualMachine) {
    const SCHEMA: &str = "python3 -c 'import sqlite3, sys; db = sqlite3.connect(\"/var/lib/fnd/state/ledger.db\"); db.execute(\"UPDATE meta SET value = ? WHERE key = ?\", (sys.argv[1], \"schema\")); db.commit(); db.execute(\"PRAGMA wal_checkpoint(truncate)\")' ";
    let version = machine.ok("systemctl stop fnd.socket fnd.service; python3 -c 'import sqlite3; print(sqlite3.connect(\"/var/lib/fnd/state/ledger.db\").execute(\"SELECT value FROM meta WHERE key = ?\", (\"schema\",)).fetchone()[0])'");
    machine.ok(&format!("{SCHEMA} 999; chown fnd: /var/lib/fnd/state/*"));
    let before = machine.ok("sha256sum </var/lib/fnd/state/ledger.db");
    machine.run("systemctl start --no-block fnd.socket fnd.service");
    machine.wait_until(
        "fnd to refuse it",
        PATIENCE,
        "journalctl --no-pager -u fnd.service -o cat --since @$(cat /var/fnd-vm-scenario) | grep 'written by a newer fnd'",
    );
    machine.ok("systemctl stop fnd.socket fnd.service");
    assert_eq!(machine.ok("sha256sum </var/lib/fnd/state/ledger.db"), before);
    machine.ok(&format!("{SCHEMA} {version}; chown fnd: /var/lib/fnd/state/*"));
    machine.ok("systemctl start fnd.socket fnd.service && fndctl status");
}
