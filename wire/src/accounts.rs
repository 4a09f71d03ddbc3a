//! Gives each function's user a name on the machine: the rule for the name, and the texts of the records that
//! nss-systemd(8) reads, so that programs find the name by the number and the number by the name.
//!
//! A record is JSON, described in <https://systemd.io/USER_RECORD/> and <https://systemd.io/GROUP_RECORD/>. Every value
//! put into it is checked first, so nothing has to be escaped.

use crate::ids::FunctionName;
use crate::trust::reserved;

/// The beginning of every name. No function can take the name of a user that does not begin so.
pub const PREFIX: &str = "fnd-";

/// Longest name in bytes: tools that write to utmp(5) cut longer ones.
const NAME_MAX: usize = 31;

/// Users and groups below this number belong to the system.
const FIRST: u32 = 1000;

/// Returns the name of a function's own user and group: `fnd-NAME`, or `fnd-GROUP.NAME`.
///
/// A name that would be too long is cut and ends with a hash of the function's name. Two functions can have the same
/// cut name; the spawner gives it to the first of them only.
#[must_use]
pub fn user_name(function: &FunctionName) -> String {
    let full = format!("{PREFIX}{}", function.file_form());
    // FNV-1a, because this crate links no other hash. Two names with one hash do no harm: only the first function gets
    // it.
    let fnv1a = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = function.as_str().bytes().fold(0x811c_9dc5, fnv1a);
    // A dash and the eight digits of the hash take 9 bytes.
    match full.get(..NAME_MAX - 9) {
        Some(front) if full.len() > NAME_MAX => format!("{front}-{hash:08x}"),
        _ => full,
    }
}

/// Returns the records of a function's user and group, which have the same name and number.
///
/// Absent: the number is not one of a function, or `home` holds other characters than letters, digits and `/._-~`.
#[must_use]
pub fn records(function: &FunctionName, id: u32, home: &str) -> Option<(String, String)> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    if id < FIRST || reserved(id, id).is_some() || !home.starts_with('/') || !home.bytes().all(plain) {
        return None;
    }
    let name = user_name(function);
    let common = r#""disposition":"system","service":"fnd""#;
    // `locked`: nobody can log in as a function with a password.
    let user = format!(
        r#"{{"userName":"{name}","realName":"function {function}","uid":{id},"gid":{id},"homeDirectory":"{home}","shell":"/bin/sh","locked":true,{common}}}"#
    );
    let group = format!(r#"{{"groupName":"{name}","gid":{id},{common}}}"#);
    Some((user + "\n", group + "\n"))
}

/// Returns whether a text like `/etc/passwd` or `/etc/group` has this name or this number.
#[must_use]
pub fn is_taken(text: &str, name: &str, id: u32) -> bool {
    let id = id.to_string();
    text.lines().any(|line| {
        let mut fields = line.split(':');
        // passwd(5), group(5): the number is the third field, and the first one is read already.
        fields.next() == Some(name) || fields.nth(1) == Some(&id)
    })
}

#[cfg(test)]
mod tests {
    use super::{is_taken, records, user_name};
    use crate::ids::FunctionName;

    fn function(name: &str) -> FunctionName {
        FunctionName::new(name).expect("a function's name")
    }

    #[test]
    fn a_name_has_at_most_31_characters_and_begins_with_the_prefix() {
        let long = "a".repeat(63);
        for (name, expected) in [
            ("hello", "fnd-hello"),
            ("ops/backup", "fnd-ops.backup"),
            ("root", "fnd-root"),
            ("a23456789012345678901234567", "fnd-a23456789012345678901234567"),
            ("a234567890123456789012345678", "fnd-a23456789012345678-2a69fac5"),
            (&format!("{long}/{long}"), "fnd-aaaaaaaaaaaaaaaaaa-d0cd2168"),
        ] {
            let found = user_name(&function(name));
            assert_eq!(found, expected, "{name}");
            assert!(found.len() <= 31, "{found}");
        }
    }

    #[test]
    fn records_are_made_for_functions_only() {
        let (user, group) = records(&function("ops/b"), 70_001, "/var/lib/fnd/home/ops.b").expect("a function");
        assert_eq!(
            user,
            "{\"userName\":\"fnd-ops.b\",\"realName\":\"function ops/b\",\"uid\":70001,\"gid\":70001,\
             \"homeDirectory\":\"/var/lib/fnd/home/ops.b\",\"shell\":\"/bin/sh\",\"locked\":true,\
             \"disposition\":\"system\",\"service\":\"fnd\"}\n"
        );
        assert_eq!(
            group,
            "{\"groupName\":\"fnd-ops.b\",\"gid\":70001,\"disposition\":\"system\",\"service\":\"fnd\"}\n"
        );
        assert!(
            records(&function("a"), 70_002, "/home/a~70002").is_some(),
            "the home of a second user"
        );
        for (id, home) in [
            (0, "/h"),
            (999, "/h"),
            (65_534, "/h"),
            (69_999, "/h"),
            (u32::MAX, "/h"),
            (70_001, "h"),
            (70_001, ""),
            (70_001, "/h\",\"uid\":0,\"x\":\""),
            (70_001, "/h\n"),
            (70_001, "/h\\"),
        ] {
            assert_eq!(records(&function("a"), id, home), None, "{id} {home}");
        }
    }

    #[test]
    fn a_name_or_number_of_the_machine_is_taken() {
        let text = "root:x:0:0:root:/root:/bin/bash\nfnd-web:x:1005:1005::/home/web:/bin/sh\nshort\n";
        for (name, id, expected) in [
            ("fnd-web", 70_000, true),
            ("fnd-a", 1005, true),
            ("fnd-a", 0, true),
            ("short", 70_000, true),
            ("fnd-we", 70_000, false),
            ("fnd-a", 100, false),
            ("x", 70_000, false),
        ] {
            assert_eq!(is_taken(text, name, id), expected, "{name} {id}");
        }
    }
}
