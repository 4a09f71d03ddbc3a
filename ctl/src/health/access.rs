//! Checks whether the user may use the control socket: members of the group `fnd` may, and everybody where the socket's mode is
//! 0666. `[[access]]` defines their roles.

use super::finding::Finding;
use nix::unistd::{Group, User};
use rustix::fs::{Access, access};

const CHECK: &str = "access";
/// The group of the control socket (`fnd.socket`).
const GROUP: &str = "fnd";

/// The user who runs this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccessFacts {
    root: bool,
    name: String,
    /// Whether the group exists.
    exists: bool,
    /// Whether this process is in it.
    in_force: bool,
    /// Whether the database of groups has the user in the group.
    entered: bool,
    /// Whether the mode of the socket lets the user connect.
    connects: bool,
}

/// Returns the user who runs this.
pub(crate) fn inspect() -> AccessFacts {
    let uid = nix::unistd::geteuid();
    let user = User::from_uid(uid).ok().flatten();
    let name = user.as_ref().map_or_else(|| uid.to_string(), |user| user.name.clone());
    let group = Group::from_name(GROUP).ok().flatten();
    let gid = group.as_ref().map(|group| group.gid);
    let own = nix::unistd::getgroups().unwrap_or_default();
    AccessFacts {
        root: uid.is_root(),
        exists: group.is_some(),
        // getgroups(2) need not list the effective group.
        in_force: gid.is_some_and(|gid| gid == nix::unistd::getegid() || own.contains(&gid)),
        // The members of a group do not include users whose primary group it is.
        entered: group.is_some_and(|group| group.mem.contains(&name)) || user.is_some_and(|user| Some(user.gid) == gid),
        // connect(2) needs the right to write (unix(7)).
        connects: access(crate::SYSTEM_SOCKET, Access::WRITE_OK).is_ok(),
        name,
    }
}

pub(crate) fn judge(facts: &AccessFacts) -> Vec<Finding> {
    let name = &facts.name;
    vec![if !facts.exists {
        Finding::error(CHECK, format!("there is no group `{GROUP}`")).fix("sudo systemd-sysusers fnd.conf")
    } else if facts.root {
        Finding::ok(CHECK, "root may do everything")
    } else if facts.in_force {
        Finding::ok(CHECK, format!("`{name}` is a member of the group `{GROUP}`"))
    } else if facts.connects {
        Finding::ok(
            CHECK,
            format!("`{name}` may use the control socket; `fndctl whoami` shows the roles"),
        )
    } else if facts.entered {
        let what = format!("`{name}` is a member of the group `{GROUP}`, but has not logged in since");
        Finding::warning(CHECK, what).fix("log in again")
    } else {
        let what = format!("`{name}` is not a member of the group `{GROUP}`, so may not use the control socket");
        Finding::warning(CHECK, what).fix(format!("sudo adduser {name} {GROUP}, then log in again"))
    }]
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    #[test]
    fn root_and_members_of_the_group_have_access() {
        let facts = |root, exists, in_force, entered| AccessFacts {
            root,
            name: "ada".into(),
            exists,
            in_force,
            entered,
            connects: false,
        };
        let open = AccessFacts {
            connects: true,
            ..facts(false, true, false, false)
        };
        for (facts, expected) in [
            (
                open,
                "ok `ada` may use the control socket; `fndctl whoami` shows the roles",
            ),
            (facts(true, true, false, false), "ok root may do everything"),
            (facts(true, false, false, false), "error there is no group `fnd`"),
            (
                facts(false, true, true, true),
                "ok `ada` is a member of the group `fnd`",
            ),
            (
                facts(false, true, false, true),
                "warning `ada` is a member of the group `fnd`, but has not logged in since",
            ),
            (
                facts(false, true, false, false),
                "warning `ada` is not a member of the group `fnd`, so may not use the control socket",
            ),
        ] {
            assert_eq!(brief(&judge(&facts)), [expected]);
        }
    }
}
