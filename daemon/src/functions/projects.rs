//! Python projects that were copied into a functions directory: their functions do not run by themselves.

use super::Functions;
use super::catalog::marked;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::registry::Registry;
use fnd_manifest::function::project;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

impl Functions {
    /// Finds the projects below the functions directories `roots`, and returns the functions in them that are held: those
    /// whose manifest does not say whether they run by themselves.
    pub(crate) fn find_projects(&mut self, registry: &Registry, roots: &[String]) -> BTreeSet<FunctionName> {
        let functions = || registry.iter().map(|(_, function)| function);
        let importing = || functions().filter(|function| !function.findings.imports.is_empty());
        // Only the directories of files that import something are looked at: this is done after each change of a file, and
        // ten thousand other files must not take time then.
        let mut files: BTreeMap<(u16, &str), BTreeSet<&str>> = importing()
            .map(|function| (group(&function.candidate).0, BTreeSet::new()))
            .collect();
        if !files.is_empty() {
            for function in functions().filter(|function| !function.candidate.directory_form) {
                let (group, file) = group(&function.candidate);
                if let Some(files) = files.get_mut(&group) {
                    files.insert(file);
                }
            }
        }
        let mut found = BTreeMap::new();
        for function in importing() {
            let (group, file) = group(&function.candidate);
            let (directory, _) = place(&function.candidate, roots);
            let is_beside = |other: &str| files.get(&group).is_some_and(|files| files.contains(other));
            if let Some(warning) = project::by_import(&directory, (file, &function.findings.imports), is_beside) {
                found.entry(directory).or_insert(warning);
            }
        }
        if found.is_empty() && marked(&self.name_problems).next().is_none() {
            self.projects.clear();
            return BTreeSet::new();
        }
        let is_marked = |directory: &str| {
            let mut marked = marked(&self.name_problems);
            marked.any(|project| {
                directory
                    .strip_prefix(project)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let is_held = |candidate: &SourceFiles| {
            let (directory, _) = place(candidate, roots);
            // The warning asks for a `function.toml`, and a function in the form of a directory has one.
            !candidate.directory_form && (found.contains_key(&directory) || is_marked(&directory))
        };
        let functions = registry.iter();
        let held = functions.filter(|(_, function)| !function.says_on_load && is_held(&function.candidate));
        let held = held.map(|(name, _)| name.clone()).collect();
        // One warning for each directory.
        found.retain(|directory, _| !marked(&self.name_problems).any(|project| project == directory));
        self.projects = found.into_values().collect();
        held
    }
}

/// Returns the functions directory of a function, its directory below that (empty: none), and the name of its source.
fn group(candidate: &SourceFiles) -> ((u16, &str), &str) {
    let (group, file) = candidate.source.rsplit_once('/').unwrap_or(("", &candidate.source));
    ((candidate.directory, group), file)
}

/// Returns the directory of a function, and the name of its source in it.
fn place<'c>(candidate: &'c SourceFiles, roots: &[String]) -> (String, &'c str) {
    let ((directory, group), file) = group(candidate);
    let root = roots.get(usize::from(directory)).map_or("", String::as_str);
    match group {
        "" => (root.to_owned(), file),
        group => (format!("{root}/{group}"), file),
    }
}
