//! What functions get from fnd and from each other, under the units: secrets, and calls.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// The value of the secret.
const VALUE: &str = "correct horse battery staple";

/// A function gets its secret. Neither journal, state nor logs have the value, also after a restart of fnd.
pub(crate) fn secrets(machine: &mut VirtualMachine) {
    let set = machine.run_with("fndctl secret set db-password --force", VALUE);
    assert_eq!(set.code, 0, "{set}");
    machine.drop_bash(
        "teller",
        "secrets = { DB = \"db-password\" }",
        "cat \"$CREDENTIALS_DIRECTORY/DB\"\n",
    );
    for restart in [false, true] {
        if restart {
            machine.ok("systemctl restart fnd");
            machine.wait_ready("teller");
        }
        assert_eq!(machine.ok("fndctl invoke teller"), VALUE);
        machine.wait_until(
            "the kept output",
            PATIENCE,
            "fndctl logs teller --no-pager | grep -F '***'",
        );
    }
    machine.ok("journalctl --sync");
    for places in [
        "journalctl --no-pager --all -o export --since @$(cat /var/fnd-vm-scenario)",
        "grep -rhaF horse /var/lib/fnd /run/fnd",
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline",
    ] {
        // The pattern does not match itself, which is in arguments.
        let found = machine.ok(&format!("{places} 2>/dev/null | grep -ac '[c]orrect horse' || true"));
        assert_eq!(found, "0", "{places}");
    }
}

/// A function calls the one that its manifest names, also after a restart of fnd, and no other one.
pub(crate) fn calls(machine: &mut VirtualMachine) {
    machine.drop_bash("price", "", "echo 3.50\n");
    machine.drop_bash(
        "order",
        "[access]\ninvoke = [\"price\"]",
        "echo \"price: $(fndctl invoke price)\"\nfndctl invoke order\necho \"another: $?\"\n",
    );
    for restart in [false, true] {
        if restart {
            machine.ok("systemctl restart fnd");
            machine.wait_ready("order");
        }
        assert_eq!(machine.ok("fndctl invoke order"), "price: 3.50\nanother: 5");
    }
    machine
        .ok("fndctl history price -o json | jq -e '[.invocations[] | select(.trigger == \"function\")] | length == 2'");
}
