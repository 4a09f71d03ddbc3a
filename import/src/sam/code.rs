//! The code of a function: the files of a directory or of an archive beside the template.

use fnd_manifest::regular_file;
use fnd_unpack::{WholeFile, held};
use fnd_wire::archive::Format;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Returns the files at a path. Tests have files of their own.
pub(super) type ReadCode = fn(&Path) -> Result<Vec<WholeFile>, String>;

/// The program that AWS starts.
pub(super) const BOOTSTRAP: &str = "bootstrap";

/// The largest code of a function: that of AWS, unpacked.
const CODE_MAX: u64 = 250 << 20;

/// Most files of a function, as far as they are copied.
const FILES_MAX: usize = 10_000;

/// How deep directories may lie in each other.
const DEPTH_MAX: usize = 32;

/// Directories that are no code, in a `CodeUri` that is the whole project.
const LEFT_OUT: [&str; 2] = [".git", ".aws-sam"];

/// Reads a directory or an archive.
///
/// # Errors
/// Why it cannot be read, for people.
pub(super) fn read(path: &Path) -> Result<Vec<WholeFile>, String> {
    let refused = |error: io::Error| format!("failed to read `{}`: {error}", path.display());
    if !fs::metadata(path).map_err(refused)?.is_dir() {
        return archive(path);
    }
    let mut code = CodeDirectory {
        files: Vec::new(),
        left: CODE_MAX,
    };
    code.add(path, "", DEPTH_MAX)?;
    Ok(code.files)
}

fn archive(path: &Path) -> Result<Vec<WholeFile>, String> {
    let name = path.display();
    let format = Format::of(&name.to_string());
    let format = format.ok_or_else(|| format!("`{name}` is neither a directory nor an archive such as `code.zip`"))?;
    let mut bytes = Vec::new();
    let opened = regular_file::open(path).and_then(|file| file.take(CODE_MAX).read_to_end(&mut bytes));
    opened.map_err(|error| format!("failed to read `{name}`: {error}"))?;
    held(format, bytes).map_err(|refusal| format!("`{name}` is refused: {}", refusal.words().0))
}

/// The files of a directory so far.
struct CodeDirectory {
    files: Vec<WholeFile>,
    /// How many more bytes are read.
    left: u64,
}

impl CodeDirectory {
    /// Adds the files of a directory; `below` is its path in the function, with a slash at its end.
    fn add(&mut self, directory: &Path, below: &str, depth: usize) -> Result<(), String> {
        let refused = |error: io::Error| format!("failed to read `{}`: {error}", directory.display());
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("`{}` lies too deep", directory.display()))?;
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            let name = name.into_string();
            names.push(name.map_err(|name| format!("the name {name:?} is no text in UTF-8"))?);
        }
        // The same directory gives the same function each time.
        names.sort();
        for name in names {
            let path = directory.join(&name);
            let kind = fs::symlink_metadata(&path).map_err(refused)?.file_type();
            if kind.is_dir() {
                if !LEFT_OUT.contains(&name.as_str()) {
                    self.add(&path, &format!("{below}{name}/"), depth)?;
                }
            } else if kind.is_symlink() && path.is_dir() {
                // A link could lead out of the code, or around in a circle.
                return Err(format!(
                    "`{}` is a link to a directory: put the directory itself there",
                    path.display()
                ));
            } else {
                self.file(&path, format!("{below}{name}"))?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String) -> Result<(), String> {
        let refused = |error: io::Error| format!("failed to read `{}`: {error}", path.display());
        let file = regular_file::open(path).map_err(refused)?;
        let mode = file.metadata().map_err(refused)?.permissions().mode();
        let mut bytes = Vec::new();
        file.take(self.left + 1).read_to_end(&mut bytes).map_err(refused)?;
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or("the code is larger than 250 MiB")?;
        if self.files.len() >= FILES_MAX {
            return Err(format!("the code has more than {FILES_MAX} files"));
        }
        self.files.push(WholeFile {
            path: name,
            bytes,
            executable: mode & 0o111 != 0,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_with_its_modes_and_without_what_is_no_code() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for directory in ["lib", ".git"] {
            fs::create_dir(path(directory)).unwrap();
        }
        for (name, mode) in [("bootstrap", 0o755), ("lib/a.txt", 0o644), (".git/HEAD", 0o644)] {
            fs::write(path(name), name).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let files = read(base.path()).unwrap();
        let seen: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.executable)).collect();
        assert_eq!(seen, [("bootstrap", true), ("lib/a.txt", false)]);
        for (name, why) in [("none", "failed to read"), ("lib/a.txt", "neither a directory")] {
            let found = read(&path(name)).unwrap_err();
            assert!(found.contains(why), "{name}: {found}");
        }
        std::os::unix::fs::symlink(".", path("lib/around")).unwrap();
        assert!(read(base.path()).unwrap_err().contains("is a link to a directory"));
        fs::write(path("a.zip"), "no archive").unwrap();
        assert!(read(&path("a.zip")).unwrap_err().contains("is refused"));
    }
}
