//! Other programs of a machine with systemd that run something in its own cgroup with limits, beside fnd.
#![expect(
    clippy::print_stderr,
    reason = "what was measured is for a person; nothing depends on it"
)]

use crate::machine::VirtualMachine;

/// Prints the medians of runs one after the other, in milliseconds.
const COMPARE: &str = r#"python3 - <<'EOF'
import statistics, subprocess, time
def median(*command):
    times = []
    for _ in range(7):
        begun = time.monotonic()
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(1000 * (time.monotonic() - begun))
    return round(statistics.median(times))
limits = ["-p", "MemoryMax=64M", "-p", "TasksMax=50", "-p", "RuntimeMaxSec=60"]
print(median("bash", "-c", ":"), median("systemd-run", "--quiet", "--wait", "--pipe", *limits, "bash", "-c", ":"),
      median("fndctl", "invoke", "nothing"), median("fndctl", "--version"))
EOF"#;

/// Both run a shell that does nothing, with limits, and wait for its end.
pub(crate) fn systemd_run(machine: &mut VirtualMachine) {
    machine.drop_bash("nothing", "", ":\n");
    let output = machine.ok(COMPARE);
    let medians: Vec<_> = output.split_whitespace().collect();
    let [bash, systemd_run, invoke, version] = medians[..] else {
        panic!("{output}");
    };
    eprintln!(
        "a shell with limits, median in ms: systemd-run --wait {systemd_run}, fndctl invoke {invoke}; bash alone {bash}, \
         fndctl --version {version}"
    );
}
