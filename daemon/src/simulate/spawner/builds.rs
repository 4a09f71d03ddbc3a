//! The homes of the functions that build. A tree is made only of a home in which, since it was emptied, nothing but the build of
//! this tree has run. The real spawner forgets these records when it ends, and so does the model.

use super::*;

/// The homes of the functions that build.
#[derive(Debug, Default)]
pub(super) struct BuildHomesModel(BTreeMap<FunctionName, BuildHomeModel>);

#[derive(Debug, Default)]
struct BuildHomeModel {
    /// The versions that this spawner has installed for this function.
    versions: BTreeSet<Version>,
    content: HomeContent,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum HomeContent {
    #[default]
    Unknown,
    /// A helper removes the files.
    Clearing,
    Empty,
    /// Only the build of this tree has run, this worker last.
    Build {
        tree: Version,
        worker: WorkerId,
        is_complete: bool,
    },
    /// A helper makes a tree of the files.
    Sealing,
}

impl BuildHomesModel {
    /// Lets a function run a version. `has_files`: its home is not empty.
    pub(super) fn admit(&mut self, builder: &FunctionName, version: Version, has_files: bool) {
        let home = self.0.entry(builder.clone()).or_insert_with(|| BuildHomeModel {
            versions: BTreeSet::new(),
            content: if has_files {
                HomeContent::Unknown
            } else {
                HomeContent::Empty
            },
        });
        home.versions.insert(version);
    }

    pub(super) fn admits(&self, builder: &FunctionName, version: Version) -> bool {
        self.0.get(builder).is_some_and(|home| home.versions.contains(&version))
    }

    pub(super) fn keep(&mut self, builder: &FunctionName, versions: &[Version]) {
        if let Some(home) = self.0.get_mut(builder) {
            home.versions.retain(|version| versions.contains(version));
        }
    }

    pub(super) fn clearing(&mut self, builder: &FunctionName, is_idle: bool) {
        // A process that still runs could leave a file behind the helper.
        let home = self.0.entry(builder.clone()).or_default();
        home.content = if is_idle {
            HomeContent::Clearing
        } else {
            HomeContent::Unknown
        };
    }

    pub(super) fn cleared(&mut self, builder: &FunctionName) {
        self.replace(builder, HomeContent::Clearing, HomeContent::Empty);
    }

    /// Notes that a build is about to start.
    ///
    /// # Errors
    /// The reason why it may not run.
    pub(super) fn starts(&mut self, builder: &FunctionName, tree: Version, worker: WorkerId) -> Result<(), String> {
        let home = self.0.get_mut(builder).filter(|home| home.versions.contains(&tree));
        let home = home.ok_or("this build was not installed since fnd-spawner was started; reload fnd")?;
        home.content = match home.content {
            HomeContent::Sealing => return Err("an earlier build is being copied".to_owned()),
            HomeContent::Build { tree: before, .. } if before != tree => HomeContent::Unknown,
            HomeContent::Empty | HomeContent::Build { .. } => HomeContent::Build {
                tree,
                worker,
                is_complete: false,
            },
            HomeContent::Unknown | HomeContent::Clearing => HomeContent::Unknown,
        };
        Ok(())
    }

    /// Notes that a worker has ended; `is_fine`: with exit code 0.
    pub(super) fn ended(&mut self, of: WorkerId, is_fine: bool) {
        for home in self.0.values_mut() {
            if let HomeContent::Build {
                worker, is_complete, ..
            } = &mut home.content
                && *worker == of
            {
                *is_complete = is_fine;
            }
        }
    }

    /// Lets a tree be made of the files in a home.
    ///
    /// # Errors
    /// The files are not those of this build alone.
    pub(super) fn seals(&mut self, builder: &FunctionName, wanted: Version, is_idle: bool) -> Result<(), String> {
        let home = self.0.entry(builder.clone()).or_default();
        match home.content {
            HomeContent::Build {
                tree,
                is_complete: true,
                ..
            } if tree == wanted && is_idle => {
                home.content = HomeContent::Sealing;
                Ok(())
            }
            _ => Err(fnd_wire::frame::NOT_ALONE.to_owned()),
        }
    }

    /// Notes that a tree was made. As with the real spawner, only a home that was cleared is known to be empty.
    pub(super) fn sealed(&mut self, builder: &FunctionName) {
        self.replace(builder, HomeContent::Sealing, HomeContent::Unknown);
    }

    fn replace(&mut self, builder: &FunctionName, before: HomeContent, after: HomeContent) {
        if let Some(home) = self.0.get_mut(builder).filter(|home| home.content == before) {
            home.content = after;
        }
    }
}
