//! An installed version of a function, with the manifest that it was judged with.

use crate::interned::Recent;
use crate::run::Rules;
use fnd_manifest::function::Manifest;
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version of a function that is installed.
#[derive(Debug, Clone)]
pub struct ServingVersion {
    /// The spawner's number for the function.
    pub id: FunctionId,
    /// The hash that names it.
    pub version: Version,
    /// The hash of its content: a script that runs by itself does so once for each of these hashes.
    pub load_key: Version,
    /// Its manifest without `entry`, so that functions whose manifests are otherwise the same share one.
    pub manifest: Arc<Manifest>,
    /// `entry` of its manifest.
    entry: Box<str>,
    /// How it runs, for people.
    pub how: Arc<How>,
    /// The uid it runs as.
    pub uid: u32,
    /// The tree of its dependencies, if it has one.
    pub tree: Option<Box<Version>>,
}

/// How a version runs, for people. Most functions of a runtime run alike.
#[derive(Debug, PartialEq, Eq)]
pub struct How {
    /// Why it runs in its mode.
    pub mode_reason: String,
    /// The runtime: `python 3.11`.
    pub runtime: String,
    /// The path of the interpreter, as it is started; empty where the entry is executed itself.
    pub interpreter: String,
}

impl ServingVersion {
    /// Returns an installed version as it was judged, with the tree of its dependencies; nothing if it was judged without a manifest.
    /// `alike` stores once the values that many functions have in common.
    #[must_use]
    pub(super) fn of(
        (installed, tree): (&Installed, Option<Version>),
        verdict: &Verdict,
        alike: &mut SharedParts,
    ) -> Option<Self> {
        let mut manifest = verdict.manifest.clone()?;
        // Without the name of the file most manifests of a runtime are the same, and these are stored once.
        let entry = std::mem::take(&mut manifest.entry).into();
        let version = verdict.runtime_version.clone();
        // The name of the real file, such as `python3.11`, tells the version without starting the interpreter.
        let version = version.or_else(|| version_in(alike.real_path(&installed.interpreter)));
        let runtime = match version {
            Some(version) => format!("{} {version}", manifest.runtime),
            None => manifest.runtime.clone(),
        };
        Some(Self {
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            manifest: alike.manifests.share(manifest),
            entry,
            how: alike.how.share(How {
                mode_reason: verdict.mode_reason.clone(),
                runtime,
                interpreter: installed.interpreter.clone(),
            }),
            uid: installed.uid,
            tree: tree.map(Box::new),
        })
    }

    /// Returns its manifest as it was judged.
    #[must_use]
    pub fn whole_manifest(&self) -> Manifest {
        Manifest {
            entry: self.entry.to_string(),
            ..Manifest::clone(&self.manifest)
        }
    }
}

/// The values that many functions have in common, stored once: of ten thousand functions most have the same rules.
#[derive(Debug)]
pub(super) struct SharedParts {
    manifests: Recent<Manifest>,
    how: Recent<How>,
    pub(super) interpreters: Recent<[String]>,
    pub(super) rules: Recent<Rules>,
    /// The real paths of interpreters, until fnd looks for changes of interpreters: ten thousand functions use a handful.
    pub(super) real_paths: BTreeMap<String, String>,
    /// Finds the real path of an interpreter.
    real: fn(&str) -> String,
}

impl Default for SharedParts {
    /// Returns the parts before the first function; each path of an interpreter passes for its real path.
    fn default() -> Self {
        Self::new(str::to_owned)
    }
}

impl SharedParts {
    /// Returns the parts before the first function; `real` finds the real path of an interpreter.
    pub(super) fn new(real: fn(&str) -> String) -> Self {
        Self {
            manifests: Recent::default(),
            how: Recent::default(),
            interpreters: Recent::default(),
            rules: Recent::default(),
            real_paths: BTreeMap::new(),
            real,
        }
    }

    fn real_path(&mut self, interpreter: &str) -> &str {
        let known = self.real_paths.entry(interpreter.to_owned());
        known.or_insert_with(|| (self.real)(interpreter))
    }
}

/// Returns the version in the name of an interpreter's real file: `3.11` of `/usr/bin/python3.11`.
fn version_in(interpreter: &str) -> Option<String> {
    let name = interpreter.rsplit('/').next()?;
    let version = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_version = version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_shows_its_version_by_its_name() {
        assert_eq!(version_in("/usr/bin/python3.11").as_deref(), Some("3.11"));
        assert_eq!(version_in("/usr/bin/bash"), None);
        assert_eq!(version_in("/usr/bin/python3"), None);
        assert_eq!(version_in(""), None);
    }
}
