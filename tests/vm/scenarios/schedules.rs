//! Schedules over a reboot, a suspend and steps of the machine's clock: no slot is handled twice or lost.

use crate::guest::{PATIENCE, text};
use crate::machine::VirtualMachine;
use serde_json::Value;

/// Seconds between the slots of `often`: a boot takes longer.
const BETWEEN: i64 = 5;

/// Handles slots while the machine is off, and while its clock is set.
pub(crate) fn clock_and_reboot(machine: &mut VirtualMachine) {
    machine.drop_bash(
        "often",
        "[[schedule]]\ncron = \"*/5 * * * * *\"\ncatch_up = \"1h\"\noverlap = \"queue\"",
        "echo \"$FND_SCHEDULED_AT\"\n",
    );
    machine.drop_bash(
        "hourly",
        "[[schedule]]\nevery = \"1h\"\ncatch_up = \"2h\"",
        "echo \"$FND_MISSED\" >>\"$STATE_DIRECTORY/slots\"\n",
    );
    machine.drop_bash(
        "booted",
        "[[schedule]]\nat = \"boot\"",
        "echo once >>\"$STATE_DIRECTORY/boots\"\n",
    );
    machine.wait_until(
        "the first slots",
        PATIENCE,
        "test $(fndctl history often -o name | wc -l) -ge 2",
    );
    machine.ok("test $(fndctl history booted -o name | wc -l) -eq 0");
    machine.reboot();
    machine.wait_until("fnd to serve", PATIENCE, "fndctl status");
    let boots = "test $(cat /var/lib/fnd/home/booted/boots | wc -l) -eq 1";
    machine.wait_until("the run of the boot", PATIENCE, boots);
    machine.ok("systemctl restart fnd.service");
    machine.wait_until("fnd to serve again", PATIENCE, "fndctl status");
    let count = runs(machine).len();
    let more = format!("test $(fndctl history often -o name | wc -l) -ge {}", count + 2);
    machine.wait_until("slots after the reboot", PATIENCE, &more);
    let before = runs(machine).len();
    suspend(machine);
    let more = format!("test $(fndctl history often -o name | wc -l) -ge {}", before + 2);
    machine.wait_until("slots after the suspend", PATIENCE, &more);
    machine.ok("fndctl schedules pause often");
    let mut caught_up = Vec::new();
    let mut after = None;
    for (number, run) in runs(machine).into_iter().enumerate() {
        let last = seconds(machine, text(&run, "scheduled_at"));
        let slots = run["slots"].as_i64().expect("a number of slots");
        let first = last - (slots - 1) * BETWEEN;
        assert!(after.is_none_or(|after| first == after + BETWEEN), "{after:?}: {run}");
        caught_up.extend((slots > 1).then_some(number));
        after = Some(last);
    }
    assert!(
        caught_up.iter().any(|run| *run < before),
        "no slot passed while the machine was off"
    );
    assert!(
        caught_up.iter().any(|run| *run >= before),
        "no slot passed while the machine was suspended"
    );

    // Seven hours and a half at once: one run for two slots, one record for five.
    let slots = "cat /var/lib/fnd/home/hourly/slots";
    machine.ok("date -s '450 minutes'");
    machine.wait_until("the run for two slots", PATIENCE, &format!("test \"$({slots})\" = 2"));
    machine.ok("fndctl history hourly -o json | jq -e '[.invocations[] | select(.reason == \"skipped-missed\")] | length == 1'");
    machine.ok(boots);
    // Back, and forward again: no slot runs twice.
    machine.ok("date -s '-300 minutes' && date -s '290 minutes'");
    let next = "fndctl schedules hourly -o json | jq -r '.schedules[0].next[0]'";
    let next = seconds(machine, machine.ok(next).trim());
    let now = seconds(machine, "now");
    assert!((1..3600).contains(&(next - now)), "next at {next}, now {now}");
    assert_eq!(machine.ok(slots).trim(), "2");
    machine.ok("date -s '-440 minutes'");
}

/// Suspends the machine to memory for several slots; its real-time clock wakes it.
fn suspend(machine: &VirtualMachine) {
    let seconds = 4 * BETWEEN;
    machine.ok(&format!(
        "echo +{seconds} >/sys/class/rtc/rtc0/wakealarm && echo mem >/sys/power/state"
    ));
}

/// Returns the causes of the scheduled runs of `often`, oldest first.
fn runs(machine: &VirtualMachine) -> Vec<Value> {
    let list = machine.get("/v1/invocations?function=often&trigger=schedule&limit=100");
    let runs = list["invocations"].as_array().expect("a list").iter().rev();
    let cause = |run: &Value| machine.get(&format!("/v1/invocations/{}", text(run, "id")))["cause"]["schedule"].clone();
    runs.map(cause).collect()
}

/// Returns an instant in seconds since 1970.
fn seconds(machine: &VirtualMachine, instant: &str) -> i64 {
    let seconds = machine.ok(&format!("date -d '{instant}' +%s"));
    seconds.trim().parse().expect("a number")
}
