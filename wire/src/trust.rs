//! Who could change what is trusted. The rule is here so that the spawner, which enforces it, and `fndctl doctor`, which
//! explains it, have one.

/// Says whether a file or directory can be changed by its owner alone, or is a sticky directory of root's.
///
/// `mode` has the permission bits as `stat` gives them, `owner` is its uid.
#[must_use]
pub const fn secure(mode: u32, directory: bool, owner: u32) -> bool {
    mode & 0o022 == 0 || (directory && mode & 0o1000 != 0 && owner == 0)
}

/// User and group of the judge, which reads what people wrote: nobody else's.
pub const JUDGE_ID: u32 = 69_999;

/// Ids that are never a function's, first and last: the overflow ids, which belong to everybody and nobody; the judge's; and
/// half of all, which would be negative somewhere.
const RESERVED: [(u32, u32); 3] = [(65_534, 65_535), (JUDGE_ID, JUDGE_ID), (1 << 31, u32::MAX)];

/// Returns the first id between two, both included, that is never given to a function.
#[must_use]
pub fn reserved(first: u32, last: u32) -> Option<u32> {
    let found = RESERVED.iter().find(|(from, to)| *from <= last && first <= *to);
    found.map(|(from, _)| first.max(*from))
}

#[cfg(test)]
mod tests {
    use super::{JUDGE_ID, reserved, secure};

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
