//! The capabilities of Linux that a function may have (capabilities(7)), and how plan and policy name them.
//!
//! They are rights beside a user, as groups are, and stand in the same lists: the form of a plan is that of fnd 0.1, and a
//! spawner of that fnd refuses such a plan, since the machine has no such group.

/// What the names of capabilities begin with in [`Plan::groups`](super::Plan::groups) and
/// [`Policy::allow_users`](super::Policy::allow_users). No group can have such a name: `:` separates the fields of
/// group(5).
pub const CAPABILITY: &str = "capability:";

/// The capabilities that a function may have, with their numbers. With others, a program could become root, change the
/// kernel or leave the limits of the function, whatever its sandbox is; or they are of no use in it.
pub const CAPABILITIES: [(&str, u32); 8] = [
    ("chown", 0),
    ("dac_override", 1),
    ("fowner", 3),
    ("kill", 5),
    ("net_bind_service", 10),
    ("net_admin", 12),
    ("net_raw", 13),
    ("ipc_lock", 14),
];

/// Returns the bit of one of [`CAPABILITIES`] in a set; absent for another name.
#[must_use]
pub fn capability_bit(name: &str) -> Option<u64> {
    let found = CAPABILITIES.iter().find(|(own, _)| *own == name);
    found.map(|(_, number)| 1_u64 << *number)
}

/// Returns whether a function with this capability is as good as root, whatever its sandbox is. It could put links into the
/// directories of root with its own `TMPDIR`s and with the sockets of all functions, where the spawner makes and removes
/// files as root; without a sandbox it could write every file of the machine.
#[must_use]
pub fn is_as_root(name: &str) -> bool {
    ["chown", "dac_override", "fowner"].contains(&name)
}

/// Returns names of groups together with those of capabilities, as plan and policy have them.
#[must_use]
pub fn with_capabilities(groups: &[String], capabilities: &[String]) -> Vec<String> {
    let capabilities = capabilities.iter().map(|name| format!("{CAPABILITY}{name}"));
    groups.iter().cloned().chain(capabilities).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_have_a_bit() {
        for (name, bit) in [("chown", 1), ("kill", 1 << 5), ("ipc_lock", 1 << 14)] {
            assert_eq!(capability_bit(name), Some(bit), "{name}");
        }
        for name in [
            "",
            "CHOWN",
            "cap_chown",
            "sys_admin",
            "setuid",
            "setgid",
            "setpcap",
            "setfcap",
            "0",
        ] {
            assert_eq!(capability_bit(name), None, "{name}");
        }
        for (name, as_root) in [
            ("chown", true),
            ("dac_override", true),
            ("fowner", true),
            ("kill", false),
        ] {
            assert_eq!(
                (is_as_root(name), capability_bit(name).is_some()),
                (as_root, true),
                "{name}"
            );
        }
        let named = with_capabilities(&["adm".to_owned()], &["chown".to_owned()]);
        assert_eq!(named, ["adm", "capability:chown"]);
    }
}
