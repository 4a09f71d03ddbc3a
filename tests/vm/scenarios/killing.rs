//! Functions end at the timeout, with the spawner, and with the unit, and no process survives.

use crate::guest::{FUNCTIONS, PATIENCE, text};
use crate::machine::VirtualMachine;

/// Processes are found by this argument: no other process of the machine sleeps so long.
const SLEEPERS: &str = "ps -eo args | grep -c '^sleep 86[0-9][0-9][0-9]$'";

/// Forks, leaves its session, ignores SIGTERM. It prints a line first, since forking may take long.
const ESCAPEE: &str = "trap '' TERM HUP INT\necho before the end\nfor n in 1 2 3 4 5; do\n  setsid bash -c 'trap \"\" TERM; (trap \"\" TERM; sleep 86001) & while :; do sleep 86002; done' &\ndone\nsetsid -f sleep 86003\nwhile :; do sleep 86004; done\n";

/// Adds a line to a file of its own and stays.
const LONG: &str = "echo \"$FND_INVOCATION\" >>\"$STATE_DIRECTORY/starts\"\ntrap 'echo term >>\"$STATE_DIRECTORY/terms\"' TERM\nsetsid -f sleep 86005\nwhile :; do sleep 86006 & wait $!; done\n";

/// All forked processes are killed with it, however they tried to escape; the output is kept.
pub(crate) fn timeout(machine: &mut VirtualMachine) {
    machine.drop_bash("escapee", "[limits]\ntimeout = \"15s\"\ngrace = \"1s\"", ESCAPEE);
    let run = machine.invoke("escapee");
    assert_eq!(run.code, 6, "{run}");
    let run = machine.last_run("escapee");
    assert_eq!(text(&run, "reason"), "timeout", "{run}");
    machine.nothing_left();
    assert_eq!(
        machine.run(SLEEPERS).out().trim(),
        "0",
        "sleepers after the end was reported"
    );
    let logs = machine.ok("fndctl logs escapee");
    assert!(logs.contains("before the end"), "{logs}");
}

/// If the root program dies, all its processes die with it. Their runs are `interrupted` and not repeated, and both
/// units start again.
pub(crate) fn spawner_killed(machine: &mut VirtualMachine) {
    machine.drop_bash("long", "[limits]\ntimeout = \"10m\"", LONG);
    machine.drop_bash("short", "", "echo fine\n");
    let id = machine.queue("long");
    machine.wait_invocation(&id, ".state == \"running\"");
    machine.wait_until("its processes", PATIENCE, &format!("test $({SLEEPERS}) -ge 2"));
    let (spawner, fnd) = (machine.main_pid("fnd-spawner.service"), machine.main_pid("fnd.service"));
    machine.ok(&format!("kill -KILL {spawner}"));
    machine.wait_restarted("fnd-spawner.service", &spawner);
    machine.wait_restarted("fnd.service", &fnd);
    assert_eq!(machine.run(SLEEPERS).out().trim(), "0", "orphans");
    let run = machine.wait_invocation(&id, ".ended_at != null");
    assert_eq!(text(&run, "state"), "interrupted", "{run}");
    machine.wait_ready("short");
    assert_eq!(machine.invoke("short").code, 0);
    assert_eq!(
        machine.ok("wc -l </var/lib/fnd/home/long/starts"),
        "1",
        "it was not run again"
    );
    machine.nothing_left();
}

/// `systemctl stop fnd` ends functions: SIGTERM, the grace period, then SIGKILL; no process of the tree remains.
pub(crate) fn stop(machine: &mut VirtualMachine) {
    machine.drop_bash("staying", "[limits]\ntimeout = \"10m\"\ngrace = \"3s\"", LONG);
    let id = machine.queue("staying");
    machine.wait_until("it to stay", PATIENCE, "test -s /var/lib/fnd/home/staying/starts");
    machine.wait_until("its processes", PATIENCE, &format!("test $({SLEEPERS}) -ge 2"));
    let took: f64 = machine
        .ok("s=$(date +%s.%N); systemctl stop fnd.service; while systemctl is-active -q fnd-spawner.service || [[ $(systemctl show --property ActiveState --value fnd-spawner.service) == deactivating ]]; do sleep 0.1; done; e=$(date +%s.%N); jq -n \"$e - $s\"")
        .parse()
        .expect("seconds");
    // After 90 s systemd itself kills (TimeoutStopSec).
    assert!((2.9..85.0).contains(&took), "the grace is 3 s, stopping took {took} s");
    assert_eq!(
        machine.ok("cat /var/lib/fnd/home/staying/terms"),
        "term",
        "one SIGTERM, before the end"
    );
    assert_eq!(machine.run(SLEEPERS).out().trim(), "0", "orphans");
    machine.ok(&format!(
        "test ! -e {FUNCTIONS} && systemctl is-failed fnd.service fnd-spawner.service | grep -c inactive | grep -x 2"
    ));
    machine.ok("systemctl start fnd.service");
    let run = machine.wait_invocation(&id, ".ended_at != null");
    assert_eq!(text(&run, "state"), "interrupted", "{run}");
}
