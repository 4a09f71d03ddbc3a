//! The places of an installation, and a judge, for verbs that need no daemon.

use crate::exit::CommandFailure;
use fnd_manifest::check::Disk;
use fnd_manifest::check::settings;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::judge::Judge;
use fnd_manifest::runtime::shipped;
use fnd_wire::naming::UPLOADS;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The places of configuration, functions, runtimes and state.
#[derive(Debug)]
pub(crate) struct LocalPlaces {
    pub(crate) config: PathBuf,
    /// Functions directories, the first wins.
    pub(crate) functions: Vec<PathBuf>,
    /// Directories with descriptions of runtimes, beside those built in; later ones replace earlier ones of the same
    /// id.
    pub(crate) runtimes: Vec<PathBuf>,
    pub(crate) state: PathBuf,
}

impl LocalPlaces {
    /// Returns the directory of the interpreters that a user has installed, beside the user's own runtimes.
    pub(crate) fn interpreters(&self) -> PathBuf {
        let own = self.runtimes.last().map_or(Path::new(""), PathBuf::as_path);
        own.with_file_name("interpreters")
    }

    /// Returns the directory of uploaded functions.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.state.join(UPLOADS)
    }

    /// Makes the uploads the last functions directory, as fnd does.
    pub(crate) fn add_uploads(&mut self) {
        let uploads = self.uploads();
        self.functions.retain(|directory| *directory != uploads);
        self.functions.push(uploads);
    }

    /// Returns the places of the system or the user's own, except those that the environment names: `FND_CONFIG`,
    /// `FND_FUNCTIONS`, `FND_RUNTIMES` and `FND_STATE` mean for fndctl what they mean for fnd.
    ///
    /// # Errors
    /// The user has no home.
    pub(crate) fn of(user: bool) -> Result<Self, CommandFailure> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Ok(Self::usual(user)?.with(set))
    }

    /// Returns these places with those that `variable` has.
    fn with(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let one = |name: &str| variable(name).map(PathBuf::from);
        let list = |name: &str| variable(name).map(|value| std::env::split_paths(&value).collect());
        self.config = one("FND_CONFIG").unwrap_or(self.config);
        self.state = one("FND_STATE").unwrap_or(self.state);
        self.functions = list("FND_FUNCTIONS").unwrap_or(self.functions);
        self.runtimes = list("FND_RUNTIMES").unwrap_or(self.runtimes);
        self.add_uploads();
        self
    }

    /// Returns the places without a look at the environment.
    fn usual(user: bool) -> Result<Self, CommandFailure> {
        let installed = PathBuf::from(shipped::INSTALLED);
        if !user {
            return Ok(Self {
                config: "/etc/fnd/fnd.toml".into(),
                functions: vec!["/etc/fnd/functions".into()],
                runtimes: vec![installed, "/etc/fnd/runtimes".into()],
                state: "/var/lib/fnd".into(),
            });
        }
        let home = std::env::home_dir().ok_or_else(|| CommandFailure::usage("--user needs HOME in the environment"))?;
        let xdg = |name: &str, default: &str| {
            let base = std::env::var_os(name).map_or_else(|| home.join(default), PathBuf::from);
            base.join("fnd")
        };
        let configuration = xdg("XDG_CONFIG_HOME", ".config");
        Ok(Self {
            config: configuration.join("fnd.toml"),
            functions: vec![configuration.join("functions")],
            runtimes: vec![installed, xdg("XDG_DATA_HOME", ".local/share").join("runtimes")],
            state: xdg("XDG_STATE_HOME", ".local/state"),
        })
    }
}

/// Returns the configuration that the command line or the environment names, which must exist, else that of the places, which may
/// be absent.
///
/// # Errors
/// The named file does not exist.
pub(crate) fn named_configuration(named: Option<&Path>, places: &LocalPlaces) -> Result<PathBuf, CommandFailure> {
    let variable = std::env::var_os("FND_CONFIG").filter(|value| !value.is_empty());
    let (config, named) = match (named, variable) {
        (Some(named), _) => (named, "--config"),
        (None, Some(_)) => (places.config.as_path(), "FND_CONFIG"),
        (None, None) => return Ok(places.config.clone()),
    };
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    match std::fs::metadata(&config) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let message = format!("there is no configuration file `{}`", config.display());
            Err(CommandFailure::usage(message).help(format!("correct {named}, or create the file")))
        }
        Ok(_) | Err(_) => Ok(config),
    }
}

/// Returns the program `fnd` that belongs to this `fndctl`: the one beside it, on `PATH`, or the installed one.
///
/// # Errors
/// There is none; the message says where it was looked for.
pub(crate) fn fnd() -> Result<PathBuf, CommandFailure> {
    // fndctl reads answers of `fnd --examine`, whose form belongs to one version. So the program beside it comes first.
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("fnd"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative directory on `PATH` would let the current directory decide which program root runs.
    let on_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let on_path = on_path.map(|directory| directory.join("fnd"));
    let mut places: Vec<PathBuf> = beside
        .into_iter()
        .chain(on_path)
        // On Debian, `PATH` of an ordinary user does not have `/usr/sbin`.
        .chain(["/usr/sbin/fnd".into()])
        .collect();
    places.dedup();
    let help = "install the package fnd, or run the `fndctl` in the same directory as `fnd`";
    program("fnd", &places, help)
}

/// Returns the first of these places where a program is.
///
/// # Errors
/// There is none; the message says where it was looked for.
pub(crate) fn program(name: &str, places: &[PathBuf], help: &str) -> Result<PathBuf, CommandFailure> {
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|path| format!("`{}`", path.display())).collect();
        let places = places.join(", ");
        CommandFailure::failed(format!("the program `{name}` is missing: looked for {places}")).help(help)
    })
}

/// Returns a judge under a configuration, with the built-in runtimes and those of directories, and their problems; no
/// judge where the configuration is refused.
pub(crate) fn judge(config: &Path, runtimes: &[PathBuf]) -> (Option<Judge>, Vec<Diagnostic>) {
    let text = |path: &Path| path.display().to_string();
    let directories: Vec<String> = runtimes.iter().map(|directory| text(directory)).collect();
    let mut files = match settings(&Disk, &text(config), &directories) {
        Ok(files) => files,
        Err(problems) => return (None, problems),
    };
    // The shipped descriptions come first, since a later one replaces one of the same id.
    files.runtimes.splice(0..0, shipped::descriptions());
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("fnd-helper"));
    let mut judge = match beside.filter(|helper| helper.is_file()) {
        Some(helper) => Judge::new().with_helper(text(&helper)),
        None => Judge::new(),
    };
    let (policy, document) = judge.settings(&files);
    (policy.map(|_| judge), document.diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_configuration_must_exist() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fnd.toml");
        let places = LocalPlaces::usual(false).expect("it needs no home");
        let failure = named_configuration(Some(file.as_path()), &places).unwrap_err();
        assert!(
            failure.message.starts_with("there is no configuration file `/"),
            "{}",
            failure.message
        );
        assert_eq!(failure.help.as_deref(), Some("correct --config, or create the file"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(named_configuration(Some(file.as_path()), &places).unwrap(), file);
    }

    #[test]
    fn a_variable_of_fnd_names_a_place_for_fndctl_too() {
        let usual = LocalPlaces::usual(false).expect("it needs no home");
        let uploads = Path::new("/var/lib/fnd/functions");
        let unchanged = LocalPlaces::usual(false).expect("it needs no home").with(|_| None);
        assert_eq!(unchanged.functions, [Path::new("/etc/fnd/functions"), uploads]);
        assert_eq!((&unchanged.config, &unchanged.state), (&usual.config, &usual.state));
        let changed = usual.with(|name| match name {
            "FND_CONFIG" => Some("/a/fnd.toml".into()),
            "FND_FUNCTIONS" => Some("/a/functions:/b".into()),
            "FND_RUNTIMES" => Some("/a/runtimes".into()),
            _ => None,
        });
        assert_eq!(changed.config, Path::new("/a/fnd.toml"));
        assert_eq!(
            changed.functions,
            [Path::new("/a/functions"), Path::new("/b"), &changed.uploads()]
        );
        assert_eq!(changed.interpreters(), Path::new("/a/interpreters"));
        assert_eq!(changed.state, Path::new("/var/lib/fnd"));
    }
}
