//! Rules for which files and user ids can be trusted. The spawner enforces them and `fndctl doctor` explains them, so
//! both use this one copy.

/// Returns whether only its owner can change a file or directory, or whether it is a sticky directory of root.
///
/// `mode` is the permission bits as in `st_mode`, `owner` is the uid.
#[must_use]
pub const fn secure(mode: u32, directory: bool, owner: u32) -> bool {
    // In a sticky directory a file can be replaced by its owner and by the owner of the directory only (inode(7)).
    mode & 0o022 == 0 || (directory && mode & 0o1000 != 0 && owner == 0)
}

/// Returns whether a text can be the name of a secret: one component of a path, and no hidden file.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    !name.starts_with('.')
        && (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// User and group id of the judge, which reads files that people wrote. Nothing else runs under this id.
pub const JUDGE_ID: u32 = 69_999;

/// Ranges of ids (first and last) that no function gets: the overflow ids, which the kernel shows for unmapped users;
/// the judge's id; and the upper half of all ids, which some programs read as negative numbers.
const RESERVED: [(u32, u32); 3] = [(65_534, 65_535), (JUDGE_ID, JUDGE_ID), (1 << 31, u32::MAX)];

/// Returns the first id from `first` to `last`, both included, that no function gets; none if there is no such id.
#[must_use]
pub fn reserved(first: u32, last: u32) -> Option<u32> {
    let found = RESERVED.iter().find(|(from, to)| *from <= last && first <= *to);
    found.map(|(from, _)| first.max(*from))
}

/// The words of refusals, so that `fndctl validate` says the same as the spawner.
pub mod refusal {
    /// An interpreter that is not there.
    pub const MISSING: &str = "does not exist";
    /// An interpreter that chooses another one by the working directory, which takes 100 ms.
    pub const SHIM: &str = "is a version manager's shim; name the real interpreter";
    /// An interpreter that cannot be executed.
    pub const NOT_EXECUTABLE: &str = "is not an executable file";

    /// Returns why an interpreter is not used that others can change, or a directory above it.
    #[must_use]
    pub fn not_safe(path: &str) -> String {
        format!("is not safe: users other than root can write to `{path}`")
    }

    /// Returns why a runtime has no interpreter, from the reasons of each one.
    #[must_use]
    pub fn no_interpreter(runtime: &str, why_not: &[String]) -> String {
        format!("no interpreter for runtime `{runtime}`: {}", why_not.join("; "))
    }

    /// Returns why a file or directory is refused that others can change, and what to do.
    #[must_use]
    pub fn insecure(path: &str) -> (&'static str, String) {
        let help = format!("run `chmod go-w {path}`, and check its owner");
        (
            "INSECURE MODE: users other than root and the owner can write to it",
            help,
        )
    }

    /// Returns why a link to a path outside of the functions directories is refused, and what to do.
    #[must_use]
    pub fn leads_out(path: &str) -> (String, &'static str) {
        let message = format!("the symbolic link leads out of the functions directories, to `{path}`");
        (message, "copy the file here instead of linking it")
    }
}

#[cfg(test)]
mod tests {
    use super::{JUDGE_ID, is_secret, reserved, secure};

    #[test]
    fn reserved_ids_are_no_functions() {
        for (first, last, expected) in [
            (70_000, 99_999, None),
            (1000, 65_533, None),
            (69_000, 70_000, Some(JUDGE_ID)),
            (65_535, 65_600, Some(65_535)),
            (1 << 31, u32::MAX, Some(1 << 31)),
            (JUDGE_ID, JUDGE_ID, Some(JUDGE_ID)),
        ] {
            assert_eq!(reserved(first, last), expected, "{first} to {last}");
        }
    }

    #[test]
    fn a_secret_is_one_name_in_its_directory() {
        let (long, longer) = ("x".repeat(64), "x".repeat(65));
        for name in ["a", "github-hook", "a.b_c-D", "x..y", &long] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "", ".", "..", ".x", "a/b", "../x", "a\0", "a b", "a\n", "ä", "a:b", &longer,
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn others_may_not_write_unless_the_directory_is_roots_and_sticky() {
        for (mode, directory, owner, expected) in [
            (0o644, false, 0, true),
            (0o600, false, 1000, true),
            (0o664, false, 0, false),
            (0o646, false, 0, false),
            (0o1666, false, 0, false),
            (0o755, true, 1000, true),
            (0o775, true, 0, false),
            (0o1777, true, 0, true),
            (0o1777, true, 1000, false),
        ] {
            assert_eq!(secure(mode, directory, owner), expected, "{mode:o} of {owner}");
        }
    }
}
