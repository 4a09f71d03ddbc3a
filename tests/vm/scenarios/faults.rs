//! A full disk, a clock that jumps, and cgroup version 1.

use crate::guest::{PATIENCE, text};
use crate::machine::VirtualMachine;

/// Without room for the history fnd refuses work that it must store. Everything else continues, and fnd recovers by
/// itself.
pub(crate) fn disk_full(machine: &mut VirtualMachine) {
    machine.drop_bash("working", "", "echo fine\n");
    machine.ok("systemctl stop fnd.service && mount -t tmpfs -o size=6m,mode=0700,uid=fnd,gid=fnd none /var/lib/fnd/state && systemctl start fnd.service");
    machine.wait_ready("working");
    machine.ok("dd if=/dev/zero of=/var/lib/fnd/state/filling bs=64K status=none 2>/dev/null; true");
    let code = "curl -sS -o /tmp/answer -w '%{http_code}' -X POST --unix-socket /run/fnd/control.sock http://fnd/v1/functions/working/invocations; cat /tmp/answer >&2";
    let refused = machine.run(code);
    assert_eq!(refused.out(), "503", "{refused}");
    let run = machine.invoke("working");
    assert_eq!(
        (run.code, run.out().trim()),
        (0, "fine"),
        "synchronous runs go on: {run}"
    );
    let problems = machine.get("/v1/status")["problems"].to_string();
    assert!(problems.contains("history"), "{problems}");
    machine.ok("rm /var/lib/fnd/state/filling");
    machine.wait_until("it to accept again", PATIENCE, &format!("test $({code}) = 202"));
    machine.wait_until(
        "the problem to be gone",
        PATIENCE,
        "fndctl status -o json | jq -e '[.problems[] | select(contains(\"cannot be written\"))] | length == 0'",
    );
    machine.ok("systemctl stop fnd.service && umount /var/lib/fnd/state && systemctl start fnd.service");
}

/// Timeouts measure elapsed time, independently of the wall clock, also over a restart of fnd.
pub(crate) fn clock(machine: &mut VirtualMachine) {
    /// Far below the smallest step of the clock, and above the time that any machine needs. Both runs take 20 s; on a
    /// busy machine the age of a worker that a restarted fnd takes over is known to a few tenths of a second only.
    const DURATION_MS: std::ops::Range<f64> = 15_000.0..3_600_000.0;
    // Both still run when the clock is set, even if queueing and checking them takes long.
    machine.drop_bash("sleeper", "[limits]\ntimeout = \"10m\"", "sleep 20\n");
    machine.drop_bash(
        "stuck",
        "[limits]\ntimeout = \"20s\"\ngrace = \"100ms\"",
        "sleep 1000\n",
    );
    for (step, restart) in [("1 day", true), ("-2 days", true), ("1 day", false)] {
        let (sleeper, stuck) = (machine.queue("sleeper"), machine.queue("stuck"));
        machine.wait_invocation(&stuck, ".state == \"running\"");
        machine.ok(&format!("date -s '{step}'"));
        if restart {
            machine.ok("systemctl restart fnd.service");
        }
        let run = machine.wait_invocation(&sleeper, ".ended_at != null");
        assert_eq!(text(&run, "state"), "succeeded", "{step}: {run}");
        let took = run["attempt_records"][0]["duration_ms"].as_f64().expect("a duration");
        assert!(DURATION_MS.contains(&took), "{step}: {took} ms");
        let run = machine.wait_invocation(&stuck, ".ended_at != null");
        assert_eq!(text(&run, "reason"), "timeout", "{step}: {run}");
        let took = run["attempt_records"][0]["duration_ms"].as_f64().expect("a duration");
        assert!(DURATION_MS.contains(&took), "{step}: {took} ms");
    }
}

/// The same package on a machine that boots with cgroup version 1 controllers: contained and killed by cgroup2, limited by
/// version 1.
pub(crate) fn hybrid(machine: &mut VirtualMachine) {
    // systemd 256 and 257 refuse version 1 without the second; earlier ones do not know it.
    machine.power_cut("systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1");
    machine.wait_until("fnd to serve", PATIENCE, "fndctl status");
    let status = machine.get("/v1/status");
    assert_eq!(text(&status, "cgroups"), "hybrid", "{status}");
    // Since Linux 6.11 a kernel may be built without the memory controller of version 1, as that of Debian 13 is.
    let memory = machine.run("mountpoint -q /sys/fs/cgroup/memory").code == 0;
    let manifest = "[limits]\npids = 20\n";
    if memory {
        let code = "data = b'x' * (400 << 20)\n";
        machine.drop_python("greedy", &format!("{manifest}memory = \"64M\""), code);
        assert_eq!(machine.invoke("greedy").code, 1);
        assert_eq!(text(&machine.last_run("greedy"), "reason"), "oom");
    } else {
        machine.drop_file("refused.sh", "# /// fnd\n# limits = { memory = \"64M\" }\n# ///\n");
        machine.wait_until(
            "a limit that cannot be enforced to be refused",
            PATIENCE,
            "fndctl show refused -o json | jq -e '.state == \"invalid\" and (.error | contains(\"`memory`\"))'",
        );
        machine.drop_python("greedy", manifest, "pass\n");
        assert_eq!(machine.invoke("greedy").code, 0);
    }
    let v1 = machine.ok("find /sys/fs/cgroup/memory /sys/fs/cgroup/pids -path '*fnd-spawner.service*' -path '*f.greedy/*' '(' -name memory.limit_in_bytes -o -name pids.max ')' -exec cat {} + 2>/dev/null | sort -n");
    // Two more than in the manifest, for the launcher and its init.
    let expected: &[&str] = if memory { &["22", "67108864"] } else { &["22"] };
    assert_eq!(
        v1.split_whitespace().collect::<Vec<_>>(),
        expected,
        "limits of version 1"
    );
    machine.drop_bash(
        "escapee",
        "[limits]\ntimeout = \"2s\"\ngrace = \"1s\"",
        "trap '' TERM\nsetsid -f sleep 86007\nwhile :; do sleep 86008; done\n",
    );
    assert_eq!(machine.invoke("escapee").code, 6);
    // The caller is answered at the timeout; the record is final when no process remains.
    assert_eq!(text(&machine.last_run("escapee"), "reason"), "timeout");
    assert_eq!(
        machine.run("ps -eo args | grep -c '^sleep 8600[78]$'").out().trim(),
        "0",
        "left after the timeout"
    );
    let spawner = machine.main_pid("fnd-spawner.service");
    machine.ok(&format!("kill -KILL {spawner}"));
    machine.wait_restarted("fnd-spawner.service", &spawner);
    machine.wait_ready("greedy");
    machine.ok("systemctl stop fnd.service");
    // The stop of the spawner is queued only now, since no unit needs it any more.
    machine.wait_until(
        "no group to be left",
        PATIENCE,
        "! ls -d /sys/fs/cgroup/*/system.slice/fnd-spawner.service 2>/dev/null | grep .",
    );
    machine.power_cut("");
}
