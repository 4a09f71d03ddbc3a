//! Limits on cgroup v2 with its controllers are enforced and read back, the reason names them, and other functions do
//! not suffer.

use crate::guest::{FUNCTIONS, PATIENCE, text};
use crate::machine::VirtualMachine;

const ALLOCATE: &str = "import sys\ndata = bytearray(int(sys.stdin.read() or 400) << 20)\nfor n in range(0, len(data), 4096):\n    data[n] = 1\n";

/// Every limit of a manifest is in the cgroup tree, with its value.
pub(crate) fn read_back(machine: &mut VirtualMachine) {
    let manifest = "[limits]\nmemory = \"96M\"\nmemory_high = \"80M\"\nswap = \"16M\"\ncpu = \"250m\"\ncpu_weight = 50\npids = 20\nio_weight = 50\nio_read = \"5M/s\"\nio_write = \"2M/s\"";
    machine.drop_bash("limited", manifest, "echo fine\n");
    assert_eq!(machine.invoke("limited").code, 0);
    for (file, value) in [
        ("memory.max", "100663296"),
        ("memory.high", "83886080"),
        ("memory.swap.max", "16777216"),
        ("cpu.max", "25000 100000"),
        ("cpu.weight", "50"),
    ] {
        assert_eq!(machine.cgroup("limited", file), value, "{file}");
    }
    // Two more than in the manifest: the launcher and the init of its pid namespace are in the group, too.
    assert_eq!(machine.cgroup("limited", "pids.max"), "22");
    let io = machine.cgroup("limited", "io.max");
    assert!(io.contains("rbps=5242880") && io.contains("wbps=2097152"), "{io}");
    let weight = machine.cgroup("limited", "io.weight");
    assert!(weight.contains("default 50"), "{weight}");
    let status = machine.get("/v1/status");
    assert_eq!(text(&status, "cgroups"), "v2");
    // Linux 6.1 has Landlock without scopes.
    let missing = status["not_enforced"].as_object().expect("a table");
    assert!(missing.keys().all(|name| name == "landlock"), "{status}");
}

/// All processes of the attempt are killed, not only one, and the reason names the limit.
pub(crate) fn memory(machine: &mut VirtualMachine) {
    machine.drop_bash("neighbour", "", "echo fine\n");
    let code = "sleep 1000 &\nsleep 1000 &\npython3 -c 'data = b\"x\" * (400 << 20)'\necho never\n";
    machine.drop_bash("greedy", "[limits]\nmemory = \"64M\"\ntimeout = \"60s\"", code);
    let greedy = machine.start("fndctl invoke greedy");
    assert_eq!(machine.invoke("neighbour").code, 0, "a neighbour answers meanwhile");
    let greedy = machine.wait(&greedy, PATIENCE);
    assert_eq!(greedy.code, 1, "{greedy}");
    let run = machine.last_run("greedy");
    assert_eq!(text(&run, "reason"), "oom", "{run}");
    assert!(text(&run, "message").contains("64 MiB"), "{run}");
    let events = machine.cgroup("greedy", "memory.events");
    let groups = events.lines().find_map(|line| line.strip_prefix("oom_group_kill "));
    assert!(groups.is_some_and(|count| count != "0"), "{events}");
    machine.nothing_left();
    let peak = run["attempt_records"][0]["memory_peak_bytes"]
        .as_u64()
        .expect("the peak of a leaf of its own");
    // The kernel may exceed the limit a little.
    assert!((32 << 20..=72 << 20).contains(&peak), "{peak}");
}

/// Swap is used only if the limit allows it.
pub(crate) fn swap(machine: &mut VirtualMachine) {
    machine.ok(
        "dd if=/dev/zero of=/swap bs=1M count=192 status=none && chmod 600 /swap && mkswap -q /swap && swapon /swap",
    );
    machine.drop_python("swapping", "[limits]\nmemory = \"64M\"\nswap = \"128M\"", ALLOCATE);
    machine.drop_python("unswapped", "[limits]\nmemory = \"64M\"", ALLOCATE);
    let swapping = machine.run("fndctl invoke swapping -d 96");
    assert_eq!(swapping.code, 0, "{swapping}");
    let unswapped = machine.run("fndctl invoke unswapped -d 96");
    assert_eq!(unswapped.code, 1, "{unswapped}");
    assert_eq!(text(&machine.last_run("unswapped"), "reason"), "oom");
    machine.ok("swapoff /swap && rm /swap");
}

/// The quota throttles a busy function, as its counters and its record show.
pub(crate) fn cpu(machine: &mut VirtualMachine) {
    let code = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end:\n    pass\n";
    machine.drop_python("spinner", "[limits]\ncpu = \"200m\"", code);
    machine.drop_bash("neighbour", "", "echo fine\n");
    let spinner = machine.start("fndctl invoke spinner");
    assert_eq!(machine.invoke("neighbour").code, 0, "a neighbour answers meanwhile");
    let spinner = machine.wait(&spinner, PATIENCE);
    assert_eq!(spinner.code, 0, "{spinner}");
    let stat = machine.cgroup("spinner", "cpu.stat");
    let throttled: u64 = stat
        .lines()
        .find_map(|line| line.strip_prefix("throttled_usec ")?.parse().ok())
        .expect("cpu.stat tells");
    // A second of CPU at a fifth of a core takes four more seconds, less the quota of the first period.
    assert!(throttled > 1_000_000, "{stat}");
    let record = &machine.last_run("spinner")["attempt_records"][0];
    assert!(
        record["throttled_ms"].as_f64().is_some_and(|ms| ms > 1000.0),
        "{record}"
    );
}

/// A fork bomb stays below its limit and ends at its timeout, and the machine answers meanwhile.
pub(crate) fn fork_bomb(machine: &mut VirtualMachine) {
    machine.drop_bash("neighbour", "", "echo fine\n");
    let code = "trap '' TERM\nbomb() { bomb | bomb & }\nbomb\nwhile :; do :; done\n";
    machine.drop_bash(
        "bomb",
        "[limits]\npids = 100\ntimeout = \"40s\"\ngrace = \"500ms\"",
        code,
    );
    let id = machine.queue("bomb");
    machine.wait_until(
        "the bomb to reach its limit",
        PATIENCE,
        &format!("awk '$1 == \"max\" && $2 > 0 {{ hit = 1 }} END {{ exit !hit }}' {FUNCTIONS}/bomb/pids.events"),
    );
    assert_eq!(machine.invoke("neighbour").code, 0, "a neighbour answers meanwhile");
    let run = machine.wait_invocation(&id, ".ended_at != null");
    assert_eq!(text(&run, "reason"), "timeout", "{run}");
    machine.nothing_left();
}

/// If an attempt failed because of a refused fork, the reason says so.
pub(crate) fn pids(machine: &mut VirtualMachine) {
    let code = "import os, sys\nfor n in range(50):\n    try:\n        if os.fork() == 0:\n            os.execvp('sleep', ['sleep', '1000'])\n    except OSError:\n        sys.exit(3)\n";
    machine.drop_python("forker", "[limits]\npids = 10", code);
    assert_eq!(machine.invoke("forker").code, 1);
    let run = machine.last_run("forker");
    assert_eq!(text(&run, "reason"), "pids", "{run}");
    assert!(text(&run, "message").contains("10"), "{run}");
    machine.nothing_left();
}

/// Writes to the disk are throttled to the limit.
pub(crate) fn io(machine: &mut VirtualMachine) {
    let code = "dd if=/dev/zero of=\"$STATE_DIRECTORY/data\" bs=256K count=16 oflag=direct status=none\n";
    machine.drop_bash("writer", "[limits]\nio_write = \"1M/s\"", code);
    let run = machine.invoke("writer");
    assert_eq!(run.code, 0, "{run}");
    let record = &machine.last_run("writer")["attempt_records"][0];
    // 4 MiB at 1 MiB a second, less the first burst.
    assert!(record["duration_ms"].as_f64().is_some_and(|ms| ms > 2500.0), "{record}");
}
