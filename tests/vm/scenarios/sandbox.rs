//! The sandbox under the units of the package, on a real system.

use crate::machine::VirtualMachine;

/// Prints what a function gets; each line is one attempt to reach something.
const LOOK: &str = r#"#!/usr/bin/env bash
echo "homes $(ls -A /home | wc -l)"
echo "run $(ls -A /run | grep -vcx -e fnd-spawner -e systemd)"
echo "others $(ls /var/lib/fnd/versions 2>/dev/null | wc -l)"
echo "processes $(ps -e --no-headers | awk '$1 == 1' | wc -l) $(ps -e --no-headers | grep -c systemd)"
echo "user $(id -un)"
touch /etc/mine 2>/dev/null && echo "wrote to /etc"
mount -t tmpfs none /mnt 2>/dev/null && echo "mounted"
unshare -Ur true 2>/dev/null && echo "a user namespace"
(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -o 'Connection refused\|Operation not permitted\|Network is unreachable' | head -1
getent hosts localhost >/dev/null && echo "names are found"
date +%Z
echo kept >"$STATE_DIRECTORY/kept"; echo private >/tmp/private; cat /tmp/private
"#;

/// Writes to `TMPDIR` without end; twice what two results and `limits.tmp` are.
const FILL: &str = "#!/usr/bin/env bash\nhead -c 30M /dev/zero 2>/dev/null >\"$TMPDIR/large\" || echo bounded\n";

/// A function sees its own files and processes and nothing of others; with `network = "none"` it has no network; with
/// profile off it sees the machine.
pub(crate) fn layers(machine: &mut VirtualMachine) {
    machine.ok("id ada || useradd --create-home ada; mkdir -p /home/ada");
    machine.drop_bash("looks", "", LOOK);
    let said = machine.ok("fndctl invoke looks");
    for line in [
        "homes 0",
        "run 0",
        "others 1",
        "processes 1 0",
        "user fnd-looks",
        "Connection refused",
        "names are found",
        "private",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    for breach in ["wrote to", "mounted", "a user namespace"] {
        assert!(!said.contains(breach), "{breach}: {said}");
    }
    assert_eq!(machine.ok("cat /var/lib/fnd/home/looks/kept").trim(), "kept");
    machine.ok("! test -e /tmp/private");
    machine.drop_bash("alone", "[sandbox]\nnetwork = \"none\"", LOOK);
    let said = machine.ok("fndctl invoke alone");
    assert!(
        !said.contains("Connection refused") && said.contains("user fnd-alone"),
        "{said}"
    );
    machine.drop_bash("inner", "[sandbox]\nnetwork = \"loopback\"", LOOK);
    let said = machine.ok("fndctl invoke inner");
    assert!(
        said.contains("Connection refused"),
        "the loopback interface is up: {said}"
    );
    machine.drop_bash("open", "[sandbox]\nprofile = \"off\"", LOOK);
    let said = machine.ok("fndctl invoke open");
    assert!(!said.contains("homes 0") && !said.contains("processes 1 0"), "{said}");
    for profile in ["strict", "off"] {
        let lines = format!("[sandbox]\nprofile = \"{profile}\"\n[limits]\ntmp = \"1M\"");
        // Two functions: nothing tells when an edit of the first one serves.
        let name = format!("fills-{profile}");
        machine.drop_bash(&name, &lines, FILL);
        let said = machine.ok(&format!("fndctl invoke {name}"));
        assert_eq!(said.trim(), "bounded", "{profile}");
    }
    let mounts = machine.ok("cat /proc/1/mountinfo");
    assert!(
        !mounts.contains("/run/fnd-spawner/root") && !mounts.contains("/var/lib/fnd/tmp"),
        "{mounts}"
    );
    machine.ok("rm /etc/fnd/functions/*");
    machine.nothing_left();
}
