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

/// As the first argument: the second one is the program that runs, and the interpreter does not.
pub const INSTEAD: &str = "{instead}";

/// Says whether a function of this name builds dependencies: [`BUILD`], and `fnd-build-2` and so on, which build beside it.
#[must_use]
pub fn is_builder(name: &str) -> bool {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.strip_prefix(BUILD);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(number))
}

/// Says whether a name is that of a function of fnd's own.
#[must_use]
pub fn is_own(name: &str) -> bool {
    name == CHECK || is_builder(name)
}
