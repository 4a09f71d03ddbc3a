//! Makes the `/etc/passwd` and `/etc/group` that a function sees, so that its user has a name there: ssh, git, ps and
//! `ls -l` want one. passwd(5), group(5).

use crate::process::identity::Identity;
use fnd_wire::sandbox::Profile;
use std::path::Path;

/// Returns the two files with the accounts that a function sees: in profile strict root, nobody, its user and its groups;
/// else also the machine's. `groups` are the names of its supplementary groups, in the order of their numbers.
pub fn of(profile: Profile, user: &str, identity: &Identity, groups: &[String], home: &Path) -> [String; 2] {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (passwd, group) = match profile {
        Profile::Strict => (
            "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                .to_owned(),
            "root:x:0:\nnogroup:x:65534:\n".to_owned(),
        ),
        _ => (read("/etc/passwd"), read("/etc/group")),
    };
    let Identity { uid, gid, .. } = identity;
    let user_line = format!("{user}:x:{uid}:{gid}:fnd function:{}:/bin/sh\n", home.display());
    let numbers = identity.groups.iter().map(|gid| gid.as_raw());
    let named = [(user.to_owned(), *gid)].into_iter().chain(groups.iter().cloned().zip(numbers));
    let lines: Vec<_> = named.map(|(name, gid)| (format!("{name}:x:{gid}:\n"), gid)).collect();
    // A group that the machine has already keeps its own line.
    let group_lines = lines.iter().filter(|(_, gid)| number(&group, *gid).is_none()).map(|(line, _)| line.as_str());
    let group_lines: String = group_lines.collect();
    let passwd = if number(&passwd, *uid).is_some() { passwd } else { ended(passwd) + &user_line };
    [passwd, ended(group) + &group_lines]
}

/// Returns the line of an account that has this number already.
fn number(text: &str, number: u32) -> Option<&str> {
    let number = number.to_string();
    text.lines().find(|line| line.split(':').nth(2) == Some(&number))
}

/// Returns a text whose last line ends.
fn ended(text: String) -> String {
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Gid;

    #[test]
    fn a_function_sees_its_own_user_and_its_groups() {
        let identity = Identity { uid: 70_001, gid: 70_001, groups: vec![Gid::from_raw(4)], ..Identity::default() };
        let home = Path::new("/var/lib/fnd/home/f");
        let strict = of(Profile::Strict, "fnd-f", &identity, &["adm".to_owned()], home);
        assert!(strict[0].ends_with("fnd-f:x:70001:70001:fnd function:/var/lib/fnd/home/f:/bin/sh\n"));
        assert_eq!(strict[1], "root:x:0:\nnogroup:x:65534:\nfnd-f:x:70001:\nadm:x:4:\n");
        assert_eq!(strict[0].lines().count(), 3);
        let standard = of(Profile::Standard, "fnd-f", &identity, &[], home);
        assert!(standard[0].len() > strict[0].len() && standard[0].contains("fnd-f:x:70001"));
        // A user that is there already stays as it is.
        let root = Identity::default();
        let root = of(Profile::Strict, "root", &root, &[], Path::new("/root"));
        assert_eq!((root[0].lines().count(), root[1].lines().count()), (2, 2));
    }
}
