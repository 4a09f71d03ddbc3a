//! The files of a function, by the path that fnd knows.

use crate::common::failed_or_denied;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::FunctionDetail;
use fnd_wire::archive::Format;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where a function's files are.
#[derive(Debug)]
pub(crate) struct FunctionSource {
    /// The file with the code; in directory form, the directory.
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
    /// The manifest beside the code, or in the directory; it may not exist.
    pub(crate) manifest: PathBuf,
    /// The status of the function, from fnd.
    pub(crate) detail: FunctionDetail,
}

impl FunctionSource {
    /// Asks fnd for the path of a function.
    ///
    /// # Errors
    /// fnd does not know the function or its file, or the file cannot be found.
    pub(crate) async fn of(context: &Context, function: &str, verb: &str) -> Result<Self, CommandFailure> {
        let detail = context.detail(function).await?;
        let path = PathBuf::from(&detail.more.source);
        if path.as_os_str().is_empty() {
            let message = format!("fnd does not say where the file of `{function}` is");
            return Err(CommandFailure::new(Exit::NoSuchThing, message).help(format!("fndctl show {function}")));
        }
        let about = fs::metadata(&path).map_err(|error| refused("read", &path, &error, (verb, function)))?;
        let manifest = if about.is_dir() {
            path.join("function.toml")
        } else {
            // The group of a function is a directory, so only the last part is in the name of the file.
            let stem = function.rsplit('/').next().unwrap_or(function);
            path.with_file_name(format!("{stem}.toml"))
        };
        Ok(Self {
            path,
            is_directory: about.is_dir(),
            manifest,
            detail,
        })
    }

    /// Returns the format of the archive that the code is; none for other code.
    pub(crate) fn archive(&self) -> Option<Format> {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.filter(|_| !self.is_directory).and_then(Format::of)
    }

    /// Returns all files: the manifest first in directory form, the code first otherwise.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(crate) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        if self.is_directory {
            below(&self.path, 0, &mut files)?;
            files.sort_by_key(|path| (*path != self.manifest, path.clone()));
        } else {
            files.push(self.path.clone());
            // A manifest without code beside it is the function's file.
            let beside = Some(self.manifest.clone()).filter(|path| *path != self.path);
            files.extend(beside.filter(|path| path.exists()));
        }
        Ok(files)
    }
}

/// Directories are not nested deeper in a function, and links may form a circle.
const DEPTH_MAX: usize = 16;

fn below(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let is_ignored = [".", "__pycache__", "node_modules"]
            .iter()
            .any(|ignored| entry.file_name().to_string_lossy().starts_with(ignored));
        if path.is_file() && !is_ignored {
            files.push(path);
        } else if path.is_dir() && depth < DEPTH_MAX && !is_ignored {
            below(&path, depth + 1, files)?;
        }
    }
    Ok(())
}

/// Returns the failure of an access to a file; where the person may not, with the command that may.
pub(crate) fn refused(what: &str, path: &Path, error: &io::Error, (verb, function): (&str, &str)) -> CommandFailure {
    let failure = failed_or_denied(what, path, error, &format!("sudo fndctl {verb} {function}"));
    match error.kind() {
        ErrorKind::NotFound => CommandFailure::new(Exit::NoSuchThing, failure.message),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use crate::common::source::*;

    #[test]
    fn a_refused_access_names_the_command_that_may() {
        let path = Path::new("/etc/fnd/functions/hello.py");
        let failure = refused(
            "write",
            path,
            &ErrorKind::PermissionDenied.into(),
            ("edit", "ops/hello"),
        );
        assert_eq!(failure.exit, Exit::NotAllowed);
        assert_eq!(failure.help.as_deref(), Some("sudo fndctl edit ops/hello"));
        assert!(
            failure
                .message
                .starts_with("failed to write `/etc/fnd/functions/hello.py`: ")
        );
        let failure = refused("read", path, &ErrorKind::NotFound.into(), ("cat", "hello"));
        assert_eq!((failure.exit, failure.help), (Exit::NoSuchThing, None));
    }
}
