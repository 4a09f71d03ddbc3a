//! The users of functions have names, which programs find by libnss-systemd; and a user runs an fnd of its own.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

const WHO: &str = r#"#!/usr/bin/env bash
echo "variables $USER $LOGNAME"
echo "whoami $(whoami)"
echo "id $(id -un):$(id -gn)"
echo "python $(python3 -c 'import os, pwd; user = pwd.getpwuid(os.getuid()); print(user.pw_name, user.pw_dir)')"
echo "node $(node -e 'console.log(os.userInfo().username)')"
echo "ssh $(ssh -o BatchMode=yes -o ConnectTimeout=5 somebody@127.0.0.1 true 2>&1)"
"#;

/// Programs in a function find its user's name, people can become that user, and the name goes with the function.
pub(crate) fn names(machine: &mut VirtualMachine) {
    machine.ok("mkdir -p /etc/fnd/functions/ops");
    machine.drop_bash("ops/who", "", WHO);
    let said = machine.ok("fndctl invoke ops/who");
    for line in [
        "variables fnd-ops.who fnd-ops.who",
        "whoami fnd-ops.who",
        "id fnd-ops.who:fnd-ops.who",
        "python fnd-ops.who /var/lib/fnd/home/ops.who",
        "node fnd-ops.who",
        "ssh ssh: connect to host 127.0.0.1 port 22: Connection refused",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(machine.ok("stat -c %U /var/lib/fnd/home/ops.who").trim(), "fnd-ops.who");
    // As docs/run-as-another-user.md has it, with runuser instead of sudo.
    machine.ok("runuser -u fnd-ops.who -- ssh-keygen -q -t ed25519 -N '' -f /var/lib/fnd/home/ops.who/.ssh/id_ed25519");
    let key = machine.ok("stat -c '%U %a' /var/lib/fnd/home/ops.who/.ssh/id_ed25519");
    assert_eq!(key.trim(), "fnd-ops.who 600");

    machine.ok("systemctl restart fnd.service");
    assert!(machine.ok("getent passwd fnd-ops.who").contains("function ops/who"));
    // A function is nobody else by its name.
    machine.drop_bash("root", "", "id -u; id -un\n");
    let said = machine.ok("fndctl invoke root");
    assert!(said.contains("fnd-root") && !said.starts_with("0\n"), "{said}");

    machine.ok("rm -r /etc/fnd/functions/*");
    machine.wait_until(
        "the names to be gone",
        PATIENCE,
        "! getent passwd fnd-ops.who && ! getent group fnd-root",
    );
    assert_eq!(machine.ok("ls -A /run/userdb").trim(), "");
    machine.nothing_left();
}

/// A user's own fnd, in a cgroup that systemd gives to that user as it gives one to a user unit: no file has to exist
/// before, and limits are in force. (The machine has no logind, so no user manager runs.)
pub(crate) fn own_fnd(machine: &mut VirtualMachine) {
    let alice = "runuser -u alice -- env XDG_RUNTIME_DIR=/run/own-fnd HOME=/home/alice";
    machine.ok(
        "systemd-run --quiet --unit own-fnd --property User=alice --property Delegate=yes --property Type=notify \
         --property RuntimeDirectory=own-fnd --setenv XDG_RUNTIME_DIR=/run/own-fnd --setenv HOME=/home/alice \
         /usr/sbin/fnd --user",
    );
    let status = machine.ok(&format!("{alice} fndctl --user status"));
    assert!(
        status.contains("save a file in /home/alice/.config/fnd/functions"),
        "{status}"
    );
    let log = machine.ok("journalctl --no-pager --unit own-fnd -o cat");
    assert!(
        log.contains("no functions yet: save a file in /home/alice/.config/fnd/functions"),
        "{log}"
    );
    let code = "# /// fnd\n# on_load = false\n# limits.memory = \"64M\"\n# ///\nwhoami\ngrep ^0:: /proc/self/cgroup\n";
    let run = machine.run_with(&format!("{alice} sh -c 'cat >~/.config/fnd/functions/mine.sh'"), code);
    assert_eq!(run.code, 0, "{run}");
    machine.wait_until(
        "the function to be ready",
        PATIENCE,
        &format!("{alice} fndctl --user show mine -o json | grep -q '\"state\": *\"ready\"'"),
    );
    let said = machine.ok(&format!("{alice} fndctl --user invoke mine"));
    assert!(
        said.starts_with("alice\n") && said.contains("/own-fnd.service/f/mine/"),
        "{said}"
    );
    let limit = machine.ok("cat /sys/fs/cgroup/system.slice/own-fnd.service/f/mine/memory.max");
    assert_eq!(limit.trim(), (64 << 20).to_string());
    machine.ok("systemctl stop own-fnd.service");
}
