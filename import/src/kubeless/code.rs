//! A function of Kubeless's command line: its files and its manifest, which are uploaded as a directory.

use super::runtime::{Chosen, lists_dependencies};
use crate::failure::ImportFailure;
use fnd_unpack::WholeFile;
use toml::Table;

/// The manifest of a function in directory form.
pub const MANIFEST: &str = "function.toml";

#[derive(Debug, Clone, Default)]
pub struct KubelessCode {
    /// The files of the function, without the manifest.
    pub files: Vec<WholeFile>,
    pub manifest: Table,
    /// The id of the runtime.
    pub runtime: String,
}

impl KubelessCode {
    /// Makes a function of its files, and takes the manifest out of them. A manifest `beside` the files is used in place of the
    /// one among them.
    ///
    /// # Errors
    /// The manifest is no TOML.
    pub fn of(
        mut files: Vec<WholeFile>,
        beside: Option<Vec<u8>>,
        runtime: &str,
        function: &str,
    ) -> Result<Self, ImportFailure> {
        let inside = files.iter().position(|file| file.path == MANIFEST);
        let inside = inside.map(|place| files.remove(place).bytes);
        let bytes = beside.or(inside).unwrap_or_default();
        let wrong = |why: &str| {
            let message = format!("the manifest of `{function}` cannot be read: {why}");
            ImportFailure::invalid(message)
        };
        let text = String::from_utf8(bytes).map_err(|error| wrong(&error.to_string()))?;
        Ok(Self {
            files,
            manifest: text.parse().map_err(|error: toml::de::Error| wrong(error.message()))?,
            runtime: runtime.to_owned(),
        })
    }

    /// Returns all files, the manifest among them.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn with_manifest(&self) -> Result<Vec<WholeFile>, ImportFailure> {
        let text = toml::to_string(&self.manifest)
            .map_err(|error| ImportFailure::usage(format!("the manifest cannot be written: {error}")))?;
        let mut all = self.files.clone();
        all.push(WholeFile::new(MANIFEST, text));
        Ok(all)
    }

    /// Adds a list of dependencies. It replaces a file of the same name.
    pub fn set_dependencies(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.retain(|file| file.path != name);
        self.files.push(WholeFile::new(name, bytes));
    }

    /// Replaces the files. An old list of dependencies stays unless a new file has its name.
    pub fn replace(&mut self, new: Vec<WholeFile>) {
        let old = std::mem::replace(&mut self.files, new);
        let is_missing =
            |file: &WholeFile| lists_dependencies(&file.path) && !self.files.iter().any(|one| one.path == file.path);
        let kept: Vec<WholeFile> = old.into_iter().filter(is_missing).collect();
        self.files.extend(kept);
    }

    /// Gives the file with the code the name that Kubeless uses for a module and a runtime. `handler` is the earlier handler. If
    /// the new module has a file already, nothing is renamed.
    pub fn rename(&mut self, handler: &str, module: &str, runtime: &Chosen) {
        let old = handler.split('.').next().unwrap_or_default();
        let is_of = |path: &str, module: &str| path.rsplit_once('.').is_some_and(|(stem, _)| stem == module);
        if old != module && self.files.iter().any(|file| is_of(&file.path, module)) {
            return;
        }
        if let Some(file) = self.files.iter_mut().find(|file| is_of(&file.path, old)) {
            file.path = format!("{module}{}", runtime.suffix(&file.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::runtime::{choose, tests::machine};
    use super::*;
    use crate::failure::FailureKind;

    fn file(path: &str, text: &str) -> WholeFile {
        WholeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
            executable: false,
        }
    }

    #[test]
    fn the_manifest_is_taken_out_of_the_files() {
        let files = vec![file("a.py", "1"), file(MANIFEST, "handler = \"a.b\"")];
        let code = KubelessCode::of(files.clone(), None, "python", "f").unwrap();
        assert_eq!(code.files, [file("a.py", "1")]);
        assert_eq!(code.manifest["handler"].as_str(), Some("a.b"));
        assert_eq!(code.with_manifest().unwrap()[1], file(MANIFEST, "handler = \"a.b\"\n"));
        let code = KubelessCode::of(files, Some(b"handler = \"x.y\"".to_vec()), "python", "f").unwrap();
        assert_eq!(code.manifest["handler"].as_str(), Some("x.y"));
        let failure = KubelessCode::of(vec![file(MANIFEST, "handler")], None, "python", "f").unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidManifest);
    }

    #[test]
    fn the_list_of_dependencies_outlives_new_files() {
        let of = |paths: &[&str]| paths.iter().map(|path| file(path, "")).collect::<Vec<_>>();
        let replaced = |old: &[&str], new: &[&str]| {
            let mut code = KubelessCode {
                files: of(old),
                ..KubelessCode::default()
            };
            code.replace(of(new));
            code.files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        let old = ["a.py", "requirements.txt"];
        assert_eq!(replaced(&old, &["b.py"]), ["b.py", "requirements.txt"]);
        assert_eq!(
            replaced(&old, &["requirements.txt", "b.py"]),
            ["requirements.txt", "b.py"]
        );
    }

    #[test]
    fn the_file_follows_the_module_and_the_runtime() {
        let python = choose("python3.7", &machine()).unwrap();
        let renamed = |names: &[&str], handler: &str, module: &str| {
            let mut code = KubelessCode {
                files: names.iter().map(|name| file(name, "")).collect(),
                ..KubelessCode::default()
            };
            code.rename(handler, module, &python);
            code.files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        let two = ["hello.py", "requirements.txt"];
        assert_eq!(renamed(&two, "hello.foo", "other"), ["other.py", "requirements.txt"]);
        assert_eq!(renamed(&two, "hello.foo", "hello"), two);
        assert_eq!(renamed(&["hello.js"], "hello.foo", "hello"), ["hello.py"]);
        // An archive has the other module already.
        assert_eq!(renamed(&["a.py", "b.py"], "a.foo", "b"), ["a.py", "b.py"]);
    }
}
