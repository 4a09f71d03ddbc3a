//! The functions of fnd's own, which build and check, and the trees that they make.

/// The function of fnd's own that builds dependencies. A function of people can't have this name.
pub const BUILD: &str = "fnd-build";

/// The function of fnd's own that checks the syntax of code. A function of people can't have this name.
pub const CHECK: &str = "fnd-check";

/// The file by which a build says that a tree is complete. A line for each package: its name, a space, its version.
pub const COMPLETE: &str = ".fnd-packages";

/// The file of a tree that says how many bytes its files have.
pub const TREE_SIZE: &str = ".fnd-size";

/// Most files of a function that its build reads.
pub const INPUTS_MAX: usize = 256;

/// How many digits of a hash name an uploaded function in the name of a function that builds.
pub const TRUST_DIGITS: usize = 12;

/// As the first argument: the second one is the program that runs, and the interpreter does not.
pub const INSTEAD: &str = "{instead}";

/// Returns the name of a function that builds: [`BUILD`] with a trust, and with a number from the second one on.
///
/// `trust` says whose functions are built there: empty for those of root, `u1000` for those of a user, `f` and
/// [`TRUST_DIGITS`] digits of a hash for those of one uploaded function.
#[must_use]
pub fn builder_name(trust: &str, number: u32) -> String {
    let trusted = if trust.is_empty() {
        BUILD.to_owned()
    } else {
        format!("{BUILD}-{trust}")
    };
    if number <= 1 {
        trusted
    } else {
        format!("{trusted}-{number}")
    }
}

/// Returns the trust of a function that builds; absent if no function of this name does.
#[must_use]
pub fn trust_of_builder(name: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    // People may give the name `fnd-build-tools` to a function, so only the exact forms of a trust count.
    let is_trust = |text: &str| {
        let of_function = |rest: &str| rest.len() == TRUST_DIGITS && rest.bytes().all(hex);
        text.strip_prefix('u').is_some_and(digits) || text.strip_prefix('f').is_some_and(of_function)
    };
    let rest = name.strip_prefix(BUILD)?;
    let Some(rest) = rest.strip_prefix('-') else {
        return rest.is_empty().then_some("");
    };
    match rest.split_once('-') {
        // A number alone is that of a further lane for functions of root, whose trust is empty.
        None if digits(rest) => Some(""),
        None => Some(rest).filter(|trust| is_trust(trust)),
        Some((trust, number)) => Some(trust).filter(|trust| is_trust(trust) && digits(number)),
    }
}

/// Says whether a function of this name builds dependencies: those of [`builder_name`].
#[must_use]
pub fn is_builder(name: &str) -> bool {
    trust_of_builder(name).is_some()
}

/// Says whether a name is that of a function of fnd's own.
#[must_use]
pub fn is_own(name: &str) -> bool {
    name == CHECK || is_builder(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_builder_says_whose_functions_are_built_there() {
        for trust in ["", "u0", "u1000", "f0123456789ab"] {
            for number in [1, 2, 64] {
                assert_eq!(trust_of_builder(&builder_name(trust, number)), Some(trust));
            }
        }
        assert_eq!(builder_name("u1000", 2), "fnd-build-u1000-2");
        for name in [
            "fnd-builder",
            "fnd-build-",
            "fnd-build-u",
            "fnd-build-u1x",
            "fnd-build-u1-",
            "fnd-build-tools",
            "fnd-build-f0123",
            "fnd-build-f0123456789aB",
            "fnd-build-2-2",
            "build",
        ] {
            assert_eq!(trust_of_builder(name), None, "{name}");
        }
    }
}
