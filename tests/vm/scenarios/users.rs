//! The users of functions have names, which programs find by libnss-systemd.

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
