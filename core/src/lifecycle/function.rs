//! A function as it was judged last: where its files are, its newest content, the findings about it, and the versions that run or may
//! run.

use super::installed_version::ServingVersion;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_manifest::judge::SourceOrigin;
use fnd_manifest::warning::WarningPlaces;
use fnd_wire::frame::{Install, STORED};
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::units;
use std::ops::Deref;
use std::sync::Arc;

/// The code of the problem that a function's code could not be fetched.
pub(super) const UNFETCHED: &str = "source";

/// A function's files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFiles {
    /// The function that the files make.
    pub function: FunctionName,
    /// Index of the functions directory; [`STORED`] for the copy of an installed version.
    pub directory: u16,
    /// Code file or directory, relative to the functions directory; of a copy the version in hexadecimal digits.
    pub source: String,
    /// Sidecar manifest, relative to the functions directory.
    pub sidecar: Option<String>,
    /// Whether `source` is a directory with `function.toml`.
    pub directory_form: bool,
}

impl SourceFiles {
    /// Returns the files of the copy of an installed version.
    #[must_use]
    pub fn of_copy(function: FunctionName, version: Version) -> Self {
        Self {
            function,
            directory: STORED,
            source: version.hex(),
            sidecar: None,
            directory_form: false,
        }
    }

    /// Returns the request that names these files.
    #[must_use]
    pub fn install(&self) -> Install {
        Install {
            directory: self.directory,
            function: self.function.clone(),
            source: self.source.clone(),
            sidecar: self.sidecar.clone(),
            directory_form: self.directory_form,
        }
    }

    /// Returns the installed version whose copy these files are; nothing if they are the files that people wrote.
    #[must_use]
    pub fn copy(&self) -> Option<Version> {
        (self.directory == STORED).then(|| Version::parse(&self.source))?
    }
}

/// A function as it was judged last, and its versions.
#[derive(Debug, Clone)]
pub struct Function {
    /// The place of its files in the functions directories.
    pub candidate: SourceFiles,
    /// The newest version that was installed, if any. It serves, unless it is on trial first.
    pub newest: Option<Box<ServingVersion>>,
    /// The version that served before the newest one; it still serves while the newest one is on trial.
    pub before: Option<Box<ServingVersion>>,
    /// The version that gets a share of the calls.
    pub canary: Option<Box<ServingVersion>>,
    /// The interpreters that can run the newest content, in order of choice.
    pub interpreters: Arc<[String]>,
    /// Whether its own manifest has the key `on_load`, which says whether the function runs by itself.
    pub says_on_load: bool,
    /// The other findings about the newest content.
    pub findings: BoxedFindings,
}

/// The findings about a function's newest content, besides its manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The modules that it imports, if it is a Python file.
    pub imports: Vec<String>,
    /// Where its code comes from, if its manifest has a source.
    pub source: Option<SourceOrigin>,
    /// Its problems and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Why it does not serve, in one line.
    pub error: Option<String>,
    /// Whether `error` is about the copy of a release, which is to serve in place of the file.
    pub is_of_copy: bool,
}

/// [`Findings`] that take no memory if there are none. Most functions have none.
#[derive(Debug, Clone, Default)]
pub struct BoxedFindings(Option<Box<Findings>>);

impl From<Findings> for BoxedFindings {
    fn from(findings: Findings) -> Self {
        Self((findings != Findings::default()).then(|| Box::new(findings)))
    }
}

impl Deref for BoxedFindings {
    type Target = Findings;

    fn deref(&self) -> &Findings {
        static NOTHING: Findings = Findings {
            imports: Vec::new(),
            source: None,
            diagnostics: Vec::new(),
            error: None,
            is_of_copy: false,
        };
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl Function {
    /// Says whether its newest content does not serve because it could not be fetched.
    #[must_use]
    pub fn is_unfetched(&self) -> bool {
        let first = self.findings.diagnostics.first();
        first.is_some_and(|problem| problem.code == UNFETCHED)
    }

    /// Returns the version that serves; `version` is the one that the supervisor names.
    #[must_use]
    pub fn serving(&self, version: Option<Version>) -> Option<&ServingVersion> {
        let older = self.before.iter().chain(&self.canary);
        let mut serving = older.filter(|older| Some(older.version) == version);
        serving.next().or(self.newest.as_ref()).map(|serving| &**serving)
    }

    /// Returns the manifests and the interpreters: an edit of the code alone does not change them.
    pub(super) fn lasting(&self) -> Lasting {
        let manifests = self.versions().map(|version| Arc::clone(&version.manifest));
        let mut manifests: Vec<_> = manifests.collect();
        // The earlier version often has the same manifest.
        manifests.dedup();
        (manifests, Arc::clone(&self.interpreters))
    }

    /// Returns the versions that run or may run: the newest first.
    pub fn versions(&self) -> impl Iterator<Item = &ServingVersion> {
        let versions = self.newest.iter().chain(&self.before).chain(&self.canary);
        versions.map(|serving| &**serving)
    }

    /// Returns what the status of the newest content says besides its first mistake: the other mistakes and some warnings in full, and
    /// the number of the other warnings.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let shown = |wanted| {
            let is_wanted = move |one: &&Diagnostic| one.kind().is_some_and(|kind| kind.shown() == wanted);
            self.findings.diagnostics.iter().filter(is_wanted)
        };
        let counted = Some(shown(WarningPlaces::Counted).count()).filter(|count| *count > 0);
        let counted = counted.map(|count| {
            let settings = units::counted(count, "setting has", "settings have");
            let name = &self.candidate.function;
            format!("{settings} another meaning here, or none (`fndctl show {name}` says which)")
        });
        // The first mistake is `error`. A person who mends only that one would have to save the file once for each mistake.
        let mistakes = self.findings.diagnostics.iter().filter(|one| one.is_error()).skip(1);
        let shown = mistakes.chain(shown(WarningPlaces::Function));
        shown.map(Diagnostic::line).chain(counted)
    }
}

/// The manifests and interpreters of a function. From those of all functions fnd derives how long history is kept, which secrets
/// are read and which interpreters are watched.
pub(super) type Lasting = (Vec<Arc<Manifest>>, Arc<[String]>);
