//! The function that a path names, judged by the daemon's own code.

use super::{Args, Context};
use crate::exit::{CommandFailure, Exit};
use crate::local::{self, LocalPlaces};
use fnd_manifest::check::{Disk, check};
use fnd_manifest::diagnostic::{Colour, Diagnostic};
use fnd_manifest::function::{Manifest, Mode};
use fnd_wire::archive::Format;
use std::path::{Path, PathBuf};

/// The function that `fndctl run` runs: judged, and valid.
#[derive(Debug)]
pub(super) struct RunSubject {
    name: String,
    pub(super) manifest: Manifest,
    /// The file with the code; in directory form, the directory.
    pub(super) code: PathBuf,
    /// The manifest beside the code, or in the directory.
    pub(super) sidecar: Option<PathBuf>,
    /// The configuration, and the directories of runtimes.
    pub(super) config: PathBuf,
}

impl RunSubject {
    /// Judges the function and prints its problems.
    ///
    /// # Errors
    /// The path does not name one function, or the function is invalid.
    pub(super) fn of(context: &Context, args: &Args) -> Result<Self, CommandFailure> {
        let path = &args.file;
        // The word may be the name of a function that fnd has loaded, so the advice names `invoke`.
        if let Err(error) = std::fs::metadata(path) {
            let message = format!("failed to read `{}`: {error}", path.display());
            return Err(CommandFailure::usage(message).help("`fndctl invoke F` runs a function that fnd has loaded"));
        }
        let places = LocalPlaces::of(context.user)?;
        let config = local::named_configuration(args.config.as_deref(), &places)?;
        let (judge, problems) = local::judge(&config, &places.runtimes);
        let checked = judge.map(|judge| check(&judge, &Disk, &path.display().to_string()));
        let found = checked.iter().flat_map(|checked| checked.all());
        let problems: Vec<Diagnostic> = problems.iter().chain(found).cloned().collect();
        for diagnostic in &problems {
            context.out.aside(&diagnostic.render(Colour::Plain));
        }
        if problems.iter().any(Diagnostic::is_error) {
            let message = format!("`{}` does not run", path.display());
            return Err(CommandFailure::new(Exit::InvalidManifest, message));
        }
        let checked = checked.map(|checked| (checked.verdicts, checked.files));
        let (mut verdicts, files) = checked.unwrap_or_default();
        // A directory of functions has several verdicts, and `run` needs one function.
        let (Some(verdict), true) = (verdicts.pop(), verdicts.is_empty()) else {
            let message = format!("`{}` is not one function", path.display());
            return Err(CommandFailure::usage(message)
                .help("name the file of a function, or a directory with a `function.toml`"));
        };
        let none = || CommandFailure::new(Exit::InvalidManifest, "it has no manifest");
        let manifest = verdict.manifest.ok_or_else(none)?;
        // A person may name the manifest in a directory, and means the directory.
        let inside = path.parent().filter(|_| path.ends_with("function.toml"));
        let mut files = files.into_iter().map(PathBuf::from);
        let (code, sidecar) = match inside.or(Some(path.as_path()).filter(|path| path.is_dir())) {
            Some(directory) => {
                // A program for AWS Lambda needs none.
                let manifest = Some(directory.join("function.toml")).filter(|manifest| manifest.exists());
                (directory.to_path_buf(), manifest)
            }
            None => (files.next().unwrap_or_else(|| path.clone()), files.next()),
        };
        Ok(Self {
            name: verdict.function.to_string(),
            manifest,
            code,
            sidecar,
            config,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mode(&self) -> Mode {
        self.manifest.mode
    }

    /// Returns the format of the archive that the code is; none for other code.
    pub(super) fn archive(&self) -> Option<Format> {
        let name = self.code.file_name().and_then(|name| name.to_str());
        name.filter(|_| !self.is_directory()).and_then(Format::of)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.code.is_dir()
    }

    /// Returns the directory that holds the function's files or its directory.
    pub(super) fn beside(&self) -> PathBuf {
        let parent = self.code.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_path_buf()
    }
}
