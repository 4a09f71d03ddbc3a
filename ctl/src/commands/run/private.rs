//! An fnd for one function, with a copy of the function's files, and the words about them.

use super::process::PrivateProcess;
use super::subject::RunSubject;
use super::{RunNeeds, copy};
use crate::client::Client;
use crate::context::Context;
use crate::exit::CommandFailure;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Mode;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// The client of a running private fnd.
pub(super) struct Private {
    /// Asks this fnd, and prints as the person wants.
    pub(super) context: Context,
    pub(super) socket: PathBuf,
    /// The secrets of installations that it does not have.
    pub(super) without: Vec<String>,
    /// The directory of the copy and the one of its installed versions, with the person's directory in their place.
    names: [(String, String); 2],
}

impl Private {
    /// Starts an fnd with a copy of the function.
    ///
    /// # Errors
    /// There is no fnd, or it cannot be started.
    pub(super) fn start(
        context: &Context,
        subject: &RunSubject,
        wanted: &RunNeeds,
    ) -> Result<(PrivateProcess, Self), CommandFailure> {
        let failed = |error: io::Error| {
            let message = format!("failed to make the directories of a private fnd: {error}");
            CommandFailure::failed(message)
        };
        // Functions of an fnd of root have users of their own, and reach their code through this directory.
        let mode = fs::Permissions::from_mode(0o711);
        let mut builder = tempfile::Builder::new();
        let root = builder.prefix("fnd-run-").permissions(mode).tempdir().map_err(failed)?;
        let at = |name: &str| root.path().join(name);
        let (functions, config) = (at("functions"), at("config"));
        fs::create_dir(&functions).map_err(failed)?;
        copy::function(subject, wanted, &functions)?;
        fs::create_dir(&config).map_err(failed)?;
        let without = copy::configuration(&subject.config, &config.join("fnd.toml"))?;
        for directory in [&functions, &config] {
            copy::make_ready(directory).map_err(failed)?;
        }
        // A script or a handler has ended by then, or the person has asked for its end.
        let grace = match subject.mode() {
            Mode::Http | Mode::Service => subject.manifest.limits.grace,
            Mode::Script | Mode::Handler => Duration::ZERO,
        };
        let person = match subject.beside().display().to_string().as_str() {
            "." => String::new(),
            beside => format!("{beside}/"),
        };
        let inside = match subject.is_directory() {
            true => format!("{}/", subject.code.display()),
            false => person.clone(),
        };
        let versions = at("state/versions").join(subject.name());
        let socket = at("run/control.sock");
        let private = Self {
            context: Context {
                client: Client::new(socket.clone(), context.user),
                // The output is shown while it comes, and a pager would wait for its end.
                out: context.out.unpaged(),
                user: context.user,
            },
            socket,
            without,
            names: [
                (format!("{}/", functions.display()), person),
                (format!("{}/", versions.display()), inside),
            ],
        };
        Ok((PrivateProcess::start(context, root, grace)?, private))
    }

    /// Returns a text in which the function's files have the person's paths.
    pub(super) fn text_of_the_person(&self, text: &str) -> String {
        with_names(text, &self.names)
    }

    /// Returns a diagnostic about the person's file.
    pub(super) fn of_the_person(&self, diagnostic: Diagnostic) -> Diagnostic {
        let text = |text: String| self.text_of_the_person(&text);
        Diagnostic {
            file: diagnostic.file.map(text),
            message: text(diagnostic.message),
            help: diagnostic.help.map(text),
            ..diagnostic
        }
    }

    /// Returns a failure with the person's paths, without advice to ask an fnd that is gone.
    pub(super) fn in_words_of_the_person(&self, failure: CommandFailure) -> CommandFailure {
        CommandFailure {
            message: self.text_of_the_person(&failure.message),
            help: failure.help.filter(|help| !help.starts_with("fndctl ")),
            unknown: None,
            ..failure
        }
    }
}

/// Returns a text with the person's paths: `names` are those of the copy and of its installed versions, each with the
/// person's in its place.
fn with_names(text: &str, names: &[(String, String); 2]) -> String {
    let [(copy, beside), (versions, inside)] = names;
    let mut rest = text.replace(copy, beside);
    // `VERSIONS/F/HASH/code` is the directory of the code.
    while let Some((before, after)) = rest.split_once(versions.as_str()) {
        let path = after.split_once('/').and_then(|(_, path)| path.strip_prefix("code"));
        let directory = Some(inside.trim_end_matches('/')).filter(|directory| !directory.is_empty());
        rest = match path.map(|path| path.strip_prefix('/').ok_or(path)) {
            Some(Ok(file)) => format!("{before}{inside}{file}"),
            Some(Err(after)) => format!("{before}{}{after}", directory.unwrap_or(".")),
            None => format!("{before}{inside}{after}"),
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_becomes_the_persons_and_nothing_between_is_lost() {
        for (inside, directory) in [("", "."), ("web/", "web")] {
            let names = [
                ("/run/x/functions/".to_owned(), "web/".to_owned()),
                ("/run/x/versions/f/".to_owned(), inside.to_owned()),
            ];
            for (text, expected) in [
                ("/run/x/functions/f.py: no", "web/f.py: no".to_owned()),
                ("at /run/x/versions/f/0ab/code/f.py:3", format!("at {inside}f.py:3")),
                (
                    "/run/x/versions/f/0ab/code 7 /run/x/versions/f/0ab/code/f.py",
                    format!("{directory} 7 {inside}f.py"),
                ),
                ("/run/x/versions/f/0ab/code", directory.to_owned()),
                ("/run/x/versions/f/0ab/plan", format!("{inside}0ab/plan")),
                ("/usr/lib/code/x", "/usr/lib/code/x".to_owned()),
            ] {
                assert_eq!(with_names(text, &names), expected, "{text}");
            }
        }
    }
}
