//! Reboots and power cuts: acknowledged work is in the history afterwards, and no record says `running` without a
//! process.

use crate::guest::{PATIENCE, text};
use crate::machine::{COMMAND, VirtualMachine};

/// Number of runs that are acknowledged before the power is cut.
const UNDER_LOAD: usize = 24;

/// Runs until a file appears.
const WAITING: &str = "echo \"$FND_INVOCATION\" >>\"$STATE_DIRECTORY/starts\"\nwhile [[ ! -e $STATE_DIRECTORY/go ]]; do sleep 0.5; done\n";

/// Running attempts are interrupted; queued work runs afterwards.
pub(crate) fn reboot(machine: &mut VirtualMachine) {
    machine.drop_bash(
        "waiting",
        "[limits]\ntimeout = \"10m\"\ngrace = \"1s\"\n[pool]\nmax = 1",
        WAITING,
    );
    let ids: Vec<String> = (0..4).map(|_| machine.queue("waiting")).collect();
    machine.wait_invocation(&ids[0], ".state == \"running\"");
    machine.reboot();
    machine.wait_until("fnd to serve", PATIENCE, "fndctl status");
    let first = machine.wait_invocation(&ids[0], ".ended_at != null");
    assert_eq!(text(&first, "state"), "interrupted", "{first}");
    machine.ok("touch /var/lib/fnd/home/waiting/go");
    for id in &ids[1..] {
        let run = machine.wait_invocation(id, ".ended_at != null");
        assert_eq!(text(&run, "state"), "succeeded", "{run}");
    }
    assert_eq!(
        machine.ok("sort /var/lib/fnd/home/waiting/starts | uniq -d"),
        "",
        "run twice"
    );
}

/// The power is cut while work is accepted and done.
pub(crate) fn cut(machine: &mut VirtualMachine) {
    machine.drop_bash(
        "quick",
        "[queue]\nmax = 1000",
        "echo \"$FND_INVOCATION\" >>\"$STATE_DIRECTORY/starts\"\n",
    );
    let more: Vec<_> = (0..UNDER_LOAD)
        .map(|_| machine.start("fndctl invoke quick --async -o json | jq -er .id"))
        .collect();
    // The first half is acknowledged; the rest is in any state when the power is cut.
    let acknowledged: Vec<String> = more
        .into_iter()
        .take(UNDER_LOAD / 2)
        .map(|pending| machine.wait(&pending, COMMAND).out().trim().to_owned())
        // A call that failed on the busy machine has no id, and was not acknowledged.
        .filter(|id| !id.is_empty())
        .collect();
    assert!(acknowledged.len() > UNDER_LOAD / 4, "{acknowledged:?}");
    machine.power_cut("");
    machine.wait_until("fnd to serve", PATIENCE, "fndctl status");
    for id in &acknowledged {
        let run = machine.wait_invocation(id, ".ended_at != null");
        let state = text(&run, "state");
        assert!(state == "succeeded" || state == "interrupted", "{run}");
    }
    machine.wait_until(
        "nothing to run or wait",
        PATIENCE,
        "fndctl status -o json | jq -e '.running == 0 and .queued == 0'",
    );
    for state in ["running", "queued"] {
        let left = machine.ok(&format!(
            "fndctl history --state {state} -o json | jq '.invocations | length'"
        ));
        assert_eq!(left, "0", "`{state}` in the history");
    }
    assert_eq!(
        machine.ok("sqlite3 /var/lib/fnd/state/ledger.db 'PRAGMA integrity_check'"),
        "ok"
    );
    assert_eq!(
        machine.ok("sort /var/lib/fnd/home/quick/starts | uniq -d"),
        "",
        "run twice"
    );
}
