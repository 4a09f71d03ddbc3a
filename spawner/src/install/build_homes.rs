//! Records what lies in the home of each function that builds. A tree is made only of a home in which, since it was
//! emptied, nothing but the build of this tree has run, and only once.
//!
//! ```text
//! Unknown ──clear──▶ Clearing ──emptied──▶ Empty ──start──▶ Build ──exit 0──▶ complete ──seal──▶ Sealing ──▶ Unknown
//! ```
//! Every other order leads to `Unknown`. fnd orders all of these steps, and it may have been taken over: then it could
//! have a build of its own leave files in the name of another tree. No files are touched here.

use fnd_wire::ids::{FunctionId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};

/// The homes of the functions that build.
#[derive(Debug, Default)]
pub struct BuildHomes(BTreeMap<FunctionId, BuildHome>);

#[derive(Debug, Default)]
struct BuildHome {
    /// The versions that this spawner has installed for this function, from the files of functions of its trust.
    versions: BTreeSet<Version>,
    contents: HomeContents,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum HomeContents {
    #[default]
    Unknown,
    /// A helper removes what lies there.
    Clearing,
    Empty,
    /// Only the build of this tree has run, this worker last; `complete` if that one has succeeded.
    Build {
        tree: Version,
        worker: WorkerId,
        complete: bool,
    },
    /// A helper makes a tree of what lies there.
    Sealing,
}

/// The files that a build finds besides its home when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStart {
    /// Its own code only: its invocation has no files yet.
    First,
    /// The `TMPDIR` of its invocation, in which an earlier attempt ran.
    Again,
    /// Input or variables from fnd.
    Given,
}

impl BuildHomes {
    /// Lets a function run a version. `has_home`: its home exists; if not, nothing has run there.
    pub fn admit(&mut self, builder: FunctionId, version: Version, has_home: bool) {
        let contents = if has_home { HomeContents::Unknown } else { HomeContents::Empty };
        let home = self.0.entry(builder).or_insert(BuildHome { versions: BTreeSet::new(), contents });
        home.versions.insert(version);
    }

    /// Returns whether a function may run a version.
    pub fn admits(&self, builder: FunctionId, version: &Version) -> bool {
        self.0.get(&builder).is_some_and(|home| home.versions.contains(version))
    }

    /// Forgets the versions of a function except these.
    pub fn keep(&mut self, builder: FunctionId, versions: &[Version]) {
        if let Some(home) = self.0.get_mut(&builder) {
            home.versions.retain(|version| versions.contains(version));
        }
    }

    /// Notes that a home is going to be emptied; `idle`: no process of the function runs.
    pub fn clearing(&mut self, builder: FunctionId, idle: bool) {
        // A process that still runs could leave a file behind the helper that empties the home.
        self.0.entry(builder).or_default().contents = if idle { HomeContents::Clearing } else { HomeContents::Unknown };
    }

    /// Notes that a home was emptied, if it is empty now. If something was started meanwhile, that counts.
    pub fn cleared(&mut self, builder: FunctionId, is_empty: bool) {
        if let Some(home) = self.0.get_mut(&builder).filter(|home| home.contents == HomeContents::Clearing) {
            home.contents = if is_empty { HomeContents::Empty } else { HomeContents::Unknown };
        }
    }

    /// Notes that a build is about to start.
    ///
    /// # Errors
    /// If this spawner has not installed that version for this function, or if its home is being copied.
    pub fn starts(&mut self, by: FunctionId, tree: Version, worker: WorkerId, start: BuildStart) -> Result<(), String> {
        let home = self.0.get_mut(&by).filter(|home| home.versions.contains(&tree));
        let home = home.ok_or("this build was not installed since fnd-spawner was started; reload fnd")?;
        let build = HomeContents::Build { tree, worker, complete: false };
        home.contents = match (home.contents, start) {
            (HomeContents::Sealing, _) => return Err("an earlier build is being copied".to_owned()),
            (HomeContents::Empty, BuildStart::First) => build,
            // Another attempt of the same build.
            (HomeContents::Build { tree: same, .. }, BuildStart::First | BuildStart::Again) if same == tree => build,
            // Input, or files of another build: afterwards nobody can tell which build has left which file.
            _ => HomeContents::Unknown,
        };
        Ok(())
    }

    /// Notes that a worker has ended; `fine`: with exit code 0.
    pub fn ended(&mut self, of: WorkerId, fine: bool) {
        for home in self.0.values_mut() {
            if let HomeContents::Build { worker, complete, .. } = &mut home.contents
                && *worker == of
            {
                *complete = fine;
            }
        }
    }

    /// Lets a tree be made of the build in a home; this is possible once. `idle`: no process of the function runs.
    ///
    /// # Errors
    /// If this build is not what lies there.
    pub fn seals(&mut self, builder: FunctionId, wanted: &Version, idle: bool) -> Result<(), String> {
        let home = self.0.entry(builder).or_default();
        match home.contents {
            HomeContents::Build { tree, complete: true, .. } if tree == *wanted && idle => {
                home.contents = HomeContents::Sealing;
                Ok(())
            }
            _ => Err(fnd_wire::frame::NOT_ALONE.to_owned()),
        }
    }

    /// Notes that the tree was made, or could not be.
    pub fn sealed(&mut self, builder: FunctionId) {
        if let Some(home) = self.0.get_mut(&builder).filter(|home| home.contents == HomeContents::Sealing) {
            home.contents = HomeContents::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDER: FunctionId = FunctionId(3);
    const ONE: Version = Version([1; 32]);
    const TWO: Version = Version([2; 32]);

    enum Step {
        Clear,
        /// A clear after which files are still there.
        Leave,
        Begin,
        End,
        /// A clear while a process of the function runs.
        ClearBusy,
        Start(Version, u64),
        StartAs(Version, u64, BuildStart),
        Exit(u64, bool),
        Seal,
    }
    use BuildStart::*;
    use Step::*;

    /// Says whether the tree `ONE` can be made after these steps.
    fn check(steps: &[Step], expected: bool) {
        let mut homes = BuildHomes::default();
        homes.admit(BUILDER, ONE, true);
        homes.admit(BUILDER, TWO, true);
        let clear = |homes: &mut BuildHomes, is_empty| {
            homes.clearing(BUILDER, true);
            homes.cleared(BUILDER, is_empty);
        };
        let start = |homes: &mut BuildHomes, tree, worker, start| {
            homes.starts(BUILDER, tree, WorkerId(worker), start).unwrap();
        };
        for step in steps {
            match step {
                Clear => clear(&mut homes, true),
                Leave => clear(&mut homes, false),
                ClearBusy => {
                    homes.clearing(BUILDER, false);
                    homes.cleared(BUILDER, true);
                }
                Begin => homes.clearing(BUILDER, true),
                End => homes.cleared(BUILDER, true),
                Start(tree, worker) => start(&mut homes, *tree, *worker, First),
                StartAs(tree, worker, how) => start(&mut homes, *tree, *worker, *how),
                Exit(worker, fine) => homes.ended(WorkerId(*worker), *fine),
                Seal => {
                    homes.seals(BUILDER, &ONE, true).unwrap();
                    assert!(homes.starts(BUILDER, TWO, WorkerId(99), First).is_err(), "it is being copied");
                    homes.sealed(BUILDER);
                }
            }
        }
        assert!(homes.seals(BUILDER, &ONE, false).is_err(), "a process still runs");
        assert_eq!(homes.seals(BUILDER, &ONE, true).is_ok(), expected);
    }

    #[test]
    fn a_tree_is_made_once_of_a_build_that_ran_alone_and_succeeded() {
        check(&[Clear, Start(ONE, 1), Exit(1, true)], true);
        check(&[Clear, Start(ONE, 1), Exit(1, false), StartAs(ONE, 2, Again), Exit(2, true)], true);
        check(&[Clear, Start(ONE, 1), Exit(1, true), Seal], false);
    }

    #[test]
    fn no_tree_is_made_of_what_another_build_could_have_left() {
        check(&[Clear, Start(TWO, 1), Exit(1, true)], false);
        check(&[Start(ONE, 1), Exit(1, true)], false);
        check(&[Leave, Start(ONE, 1), Exit(1, true)], false);
        check(&[Clear, Start(TWO, 1), Exit(1, true), Start(ONE, 2), Exit(2, true)], false);
        check(&[Clear, Start(ONE, 1), Start(TWO, 2), Exit(2, true), Exit(1, true)], false);
        check(&[Clear, Start(ONE, 1), Exit(1, true), Start(TWO, 2)], false);
        check(&[Begin, Start(TWO, 1), Exit(1, true), End, Start(ONE, 2), Exit(2, true)], false);
        check(&[ClearBusy, Start(ONE, 1), Exit(1, true)], false);
        check(&[Clear, StartAs(ONE, 1, Again), Exit(1, true)], false);
        check(&[Clear, StartAs(ONE, 1, Given), Exit(1, true)], false);
        check(&[Clear, Start(ONE, 1), StartAs(ONE, 2, Given), Exit(2, true)], false);
    }

    #[test]
    fn no_tree_is_made_of_a_build_that_failed_or_still_runs() {
        check(&[Clear, Start(ONE, 1)], false);
        check(&[Clear, Start(ONE, 1), Exit(1, false)], false);
        check(&[Clear, Start(ONE, 1), Start(ONE, 2), Exit(1, true)], false);
        check(&[], false);
    }

    #[test]
    fn a_function_without_a_home_needs_no_clear() {
        for has_home in [false, true] {
            let mut homes = BuildHomes::default();
            homes.admit(BUILDER, ONE, has_home);
            homes.starts(BUILDER, ONE, WorkerId(1), First).unwrap();
            homes.ended(WorkerId(1), true);
            assert_eq!(homes.seals(BUILDER, &ONE, true).is_ok(), !has_home);
        }
    }

    #[test]
    fn only_versions_that_were_installed_here_may_run() {
        let mut homes = BuildHomes::default();
        let starts = |homes: &mut BuildHomes| homes.starts(BUILDER, ONE, WorkerId(1), First).is_ok();
        assert!(!starts(&mut homes));
        homes.admit(FunctionId(4), ONE, true);
        assert!(!starts(&mut homes), "of another function");
        homes.admit(BUILDER, ONE, true);
        assert!(starts(&mut homes));
        homes.keep(BUILDER, &[TWO]);
        assert!(!starts(&mut homes));
    }
}
