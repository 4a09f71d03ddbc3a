//! Who could change what is trusted. The rule is here so that the spawner, which enforces it, and `fndctl doctor`, which
//! explains it, have one.

/// Says whether a file or directory can be changed by its owner alone, or is a sticky directory of root's.
///
/// `mode` has the permission bits as `stat` gives them, `owner` is its uid.
#[must_use]
pub const fn secure(mode: u32, directory: bool, owner: u32) -> bool {
    mode & 0o022 == 0 || (directory && mode & 0o1000 != 0 && owner == 0)
}

#[cfg(test)]
mod tests {
    use super::secure;

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
