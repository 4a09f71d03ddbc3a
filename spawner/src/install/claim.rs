//! Checks which function a file belongs to before it is installed: fnd names the file, and the spawner decides which
//! function and which manifest belong to that file.
//!
//! So an fnd that was taken over can't install the code of one function as that of another user. It also can't combine
//! a script that may run as root with another function's manifest.

use super::source::unreadable;
use super::*;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;

/// Largest number of names that are read in one directory.
const NAMES_MAX: usize = 100_000;
const AGAIN: &str = "reload fnd; if the error remains, fnd is damaged or was taken over: reinstall it";

impl Sources {
    /// Returns the manifest of the function to install, relative to its functions directory; none if it has none.
    ///
    /// # Errors
    /// Why the file may not be installed as that function.
    pub fn claim(&self, install: &Install) -> Result<Option<String>, Problem> {
        let Install { directory, function, source, sidecar, directory_form } = install;
        let index = usize::from(*directory);
        let root = self.dirs.get(index);
        let root = root.ok_or_else(|| problem(source, "there is no such functions directory", "reload fnd"))?;
        let shown = root.join(source).display().to_string();
        let (group, file) =
            source.rsplit_once('/').map_or((None, source.as_str()), |(group, file)| (Some(group), file));
        let own_name = function.as_str().rsplit('/').next();
        // An upload makes the function that it is named for, and no other one.
        let any_name = *root != self.uploads || file.split('.').next() == own_name;
        let of_content = naming::is_foreign(source) && sidecar.is_none() && !*directory_form && any_name;
        let beside = match naming::function_of(source, *directory_form) {
            // The content of the file says the last part of the name, and the child that makes the function compares it.
            _ if of_content && function.group() == group && !fnd_wire::plan::is_own(function.as_str()) => None,
            Some((name, beside)) if name == *function => beside,
            _ => return Err(problem(&shown, format!("it is not the code of function `{function}`"), AGAIN)),
        };
        if let Some(other) = sidecar.as_ref().filter(|sidecar| beside.as_ref() != Some(sidecar)) {
            return Err(problem(&shown, format!("`{other}` is not the manifest of function `{function}`"), AGAIN));
        }
        if let Some(group) = function.group().filter(|group| is_form(&root.join(group))) {
            return Err(problem(&shown, format!("it is part of the function `{group}`, which is a directory"), AGAIN));
        }
        for above in self.dirs.iter().take(index) {
            let alone = Some(above.join(format!("{function}.toml"))).filter(|alone| alone.exists());
            if let Some(other) = claimants(above, install)?.first().or(alone.as_ref()) {
                let other = other.display();
                let message = format!("`{other}` has the name `{function}`, and its directory comes before this one");
                return Err(problem(&shown, message, "rename one of the two"));
            }
        }
        self.shared(root, install)?;
        // Of a directory that is no function any more, opening its manifest fails and says so.
        let is_needed = sidecar.is_some() || *directory_form && !is_form(&root.join(source));
        Ok(beside.filter(|beside| is_needed || fs::symlink_metadata(root.join(beside)).is_ok()))
    }

    /// In a directory that several people may write to (a sticky one), refuses a name that somebody else's file has
    /// too.
    fn shared(&self, root: &Path, install: &Install) -> Result<(), Problem> {
        let path = root.join(&install.source);
        // Where only the owner of the directory can write, the owner has put every name there.
        let writable = |dir: &Path| self.facts.metadata(dir).is_some_and(|meta| meta.mode() & 0o022 != 0);
        if !path.parent().is_some_and(writable) {
            return Ok(());
        }
        let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| meta.uid());
        let mine = owner(&path);
        let mut manifest = install.sidecar.iter().map(|sidecar| root.join(sidecar));
        if let Some(other) = manifest.find(|manifest| ![mine, Some(0)].contains(&owner(manifest))) {
            let message = format!("`{}` is its manifest and belongs to another user", other.display());
            return Err(problem(&path.display().to_string(), message, "remove it, or write one of your own"));
        }
        let others = claimants(root, install)?;
        let Some(other) = others.iter().find(|other| owner(other) != mine) else { return Ok(()) };
        let message = format!("`{}` has the same name and belongs to another user", other.display());
        Err(problem(&path.display().to_string(), message, "rename one of the two"))
    }
}

/// Says whether a directory is a function, and no group: it has a manifest, or the program of the runtime `lambda`. A link
/// may be that program: it is followed only when it is opened, because it may lead to a file system that never answers.
fn is_form(dir: &Path) -> bool {
    let is = |name, kind: fn(&fs::Metadata) -> bool| dir.join(name).symlink_metadata().is_ok_and(|meta| kind(&meta));
    is("function.toml", |_| true) || is(naming::BOOTSTRAP, |meta| !meta.is_dir() && meta.mode() & 0o111 != 0)
}

/// Returns the files and directories in a functions directory that have the name of a function, except manifests.
fn claimants(root: &Path, install: &Install) -> Result<Vec<PathBuf>, Problem> {
    let dir = install.function.group().map_or_else(|| root.to_owned(), |group| root.join(group));
    let shown = || dir.display().to_string();
    let entries = match fs::read_dir(&dir) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(&shown(), &error))?,
    };
    let name = install.function.as_str().rsplit('/').next().unwrap_or_default();
    let mut found = Vec::new();
    for (count, entry) in entries.enumerate() {
        let entry = entry.map_err(|error| unreadable(&shown(), &error))?;
        if count >= NAMES_MAX {
            let message = format!("it has more than {NAMES_MAX} entries");
            return Err(problem(&shown(), message, "keep data outside of the functions directories"));
        }
        let file_name = entry.file_name();
        let stems = |directory| naming::stem(OsStr::as_bytes(&file_name), directory) == Some(name.as_bytes());
        if !stems(false) && !stems(true) {
            continue; // true for most entries
        }
        let path = entry.path();
        let is_dir = path.is_dir();
        found.extend((stems(is_dir) && (!is_dir || is_form(&path))).then_some(path));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Myself;

    #[test]
    fn a_file_of_another_system_is_any_function_of_its_group_but_as_an_upload_only_the_one_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let [functions, uploads] = ["functions", "uploads"].map(|name| dir.path().join(name));
        for dir in [&functions, &uploads] {
            fs::create_dir_all(dir.join("ops")).unwrap();
        }
        let dirs = vec![functions, uploads.clone()];
        let sources = Sources { dirs, uploads, myself: Myself::current(), facts: StatCache::default() };
        let check = |directory, function: &str, source: &str, expected: bool| {
            let (function, source) = (FunctionName::new(function).unwrap(), source.to_owned());
            let install = Install { directory, function, source, sidecar: None, directory_form: false };
            assert_eq!(sources.claim(&install).is_ok(), expected, "{install:?}");
        };
        for (directory, of_other_name) in [(0, true), (1, false)] {
            check(directory, "app", "app.yaml", true);
            check(directory, "ops/app", "ops/app.yaml", true);
            check(directory, "other", "app.yaml", of_other_name);
            check(directory, "ops/other", "ops/app.yaml", of_other_name);
            check(directory, "ops/app", "app.yaml", false);
            check(directory, "app", "ops/app.yaml", false);
            check(directory, "fnd-check", "app.yaml", false);
        }
    }

    #[test]
    fn a_directory_has_a_manifest_or_an_executable_bootstrap() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let dirs = vec![root.clone()];
        let sources = Sources { dirs, uploads: PathBuf::new(), myself: Myself::current(), facts: StatCache::default() };
        let named = Some("f/function.toml".to_owned());
        let claim = || {
            let (function, source) = (FunctionName::new("f").unwrap(), "f".to_owned());
            let install = Install { directory: 0, function, source, sidecar: None, directory_form: true };
            sources.claim(&install).ok().unwrap()
        };
        let bootstrap = root.join("f/bootstrap");
        fs::create_dir(root.join("f")).unwrap();
        fs::write(&bootstrap, "").unwrap();
        for (mode, expected) in [(0o644, &named), (0o755, &None)] {
            fs::set_permissions(&bootstrap, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(claim(), *expected, "{mode:o}");
        }
        fs::remove_file(&bootstrap).unwrap();
        std::os::unix::fs::symlink("main", &bootstrap).unwrap();
        assert_eq!(claim(), None);
        fs::write(root.join("f/function.toml"), "").unwrap();
        assert_eq!(claim(), named);
    }
}
