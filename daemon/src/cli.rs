//! The command line of `fnd` and its environment, and the places that follow from them.

use crate::http::listen::Address;
use clap::Parser;
use fnd_manifest::runtime::shipped;
use fnd_wire::naming::UPLOADS;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Turns files into supervised functions.
///
/// A file dropped into the functions directory is started in its own cgroup with limits, killed on timeout with everything
/// it forked, retried with backoff, and its status, output and history are kept. `fndctl` talks to this daemon.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "fnd",
    version,
    after_help = "\
Examples:
  fnd --check                               check the configuration and every manifest, start nothing
  fnd --check=config                        check the configuration only
  fnd --user                                run as your own user, without root
  fnd --functions ./fns --state /tmp/s --run-dir /tmp/r

Exit codes: 0 stopped, 1 failed, 2 usage, 75 another daemon holds the state, 78 configuration."
)]
pub struct DaemonCli {
    /// Configuration file; `conf.d/*.toml` beside it are merged over it
    #[arg(long, value_name = "FILE", env = "FND_CONFIG")]
    pub config: Option<PathBuf>,
    /// Functions directory; may be repeated, the first wins on a name clash
    #[arg(long, value_name = "DIR", env = "FND_FUNCTIONS", value_delimiter = ':')]
    pub functions: Vec<PathBuf>,
    /// Directory with runtimes (`ID/runtime.toml`); may be repeated, a later one wins
    #[arg(long, value_name = "DIR", env = "FND_RUNTIMES", value_delimiter = ':')]
    pub runtimes: Vec<PathBuf>,
    /// State directory: history, output, installed versions
    #[arg(long, value_name = "DIR", env = "FND_STATE")]
    pub state: Option<PathBuf>,
    /// Directory for the control socket and status files
    #[arg(long, value_name = "DIR", env = "FND_RUN_DIR")]
    pub run_dir: Option<PathBuf>,
    /// Address of the HTTP listener, in addition to `[http] listen`: a port of the loopback, or `unix:` and a path
    #[arg(long, value_name = "ADDR", env = "FND_LISTEN", value_parser = local)]
    pub listen: Option<Address>,
    /// Run as the user who starts it, without root: all places are below the home directory
    #[arg(long, env = "FND_USER")]
    pub user: bool,
    /// Run functions although a limit of their manifest cannot be enforced
    #[arg(long, env = "FND_BEST_EFFORT_LIMITS")]
    pub best_effort_limits: bool,
    /// Check the configuration and every manifest (`--check=config`: the configuration only), print errors, and exit:
    /// 0, or 78
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub check: Option<Checked>,
    /// Socket of a spawner that runs already; without it fnd starts one as its child
    #[arg(long, value_name = "PATH", env = "FND_SPAWNER_SOCKET")]
    pub spawner_socket: Option<PathBuf>,
    /// Name of the cgroup made for functions when fnd starts the spawner itself
    #[arg(long, value_name = "NAME", env = "FND_CGROUP_ROOT")]
    pub cgroup_root: Option<String>,
    /// End when standard input, a pipe, closes, and then remove this directory with the state and the run directory (started
    /// by `fndctl run`)
    #[arg(long, hide = true, value_name = "DIR", requires_all = ["state", "run_dir"])]
    pub private: Option<PathBuf>,
    /// Check the ledger in a state directory, or a copy of one, and print the findings as JSON (started by `fndctl
    /// verify`)
    #[arg(long, hide = true, value_name = "PATH")]
    pub examine: Option<PathBuf>,
    /// With --examine: make the safe repairs
    #[arg(long, hide = true, requires = "examine")]
    pub repair: bool,
}

/// The files that `--check` judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Checked {
    /// Configuration and every manifest.
    All,
    /// The configuration only.
    Config,
}

/// The paths of configuration, functions, runtimes, state and sockets.
#[derive(Debug, Clone)]
pub struct Places {
    /// `fnd.toml`.
    pub config: PathBuf,
    /// Functions directories, absolute, most important first.
    pub functions: Vec<PathBuf>,
    /// Whether the functions directories were named on the command line, which wins over `functions_dirs`.
    pub functions_named: bool,
    /// Runtimes directories, least important first.
    pub runtimes: Vec<PathBuf>,
    /// Whether the runtimes inside the program are used as well, since no directory has the shipped ones.
    pub runtimes_inside: bool,
    pub state: PathBuf,
    /// The directory of the control socket and the status files.
    pub run_dir: PathBuf,
}

impl Places {
    /// Returns the directory of uploaded functions.
    #[must_use]
    pub fn uploads(&self) -> PathBuf {
        self.state.join(UPLOADS)
    }

    /// Makes the uploads the last functions directory, so that the others win.
    pub(crate) fn add_uploads(&mut self) {
        let uploads = self.uploads();
        // A configuration may name this directory itself, perhaps in front of others.
        self.functions.retain(|directory| *directory != uploads);
        self.functions.push(uploads);
    }

    /// Returns the configuration file and the directories of runtimes, as the judge takes them.
    #[must_use]
    pub fn judged(&self) -> (String, Vec<String>) {
        let text = |path: &PathBuf| path.display().to_string();
        (text(&self.config), self.runtimes.iter().map(text).collect())
    }
}

/// Why the places cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// Somebody named a configuration file that does not exist. Only that of the default path may be absent.
    #[error("there is no configuration file `{}`: correct `--config` or FND_CONFIG, or create the file", .0.display())]
    NoConfiguration(PathBuf),
    /// `--user` without a home.
    #[error("`--user` needs HOME (and for sockets XDG_RUNTIME_DIR) in the environment")]
    NoHome,
    /// A path cannot be made absolute.
    #[error("failed to make `{path}` absolute")]
    Absolute {
        /// The path as given.
        path: PathBuf,
        source: std::io::Error,
    },
}

impl DaemonCli {
    /// Returns the places of a start or a check, which need the configuration file that somebody named.
    ///
    /// # Errors
    /// [`PlacesError`].
    pub fn places_with_configuration(&self) -> Result<Places, PlacesError> {
        let places = self.places()?;
        // fnd may perhaps not look at a file that the spawner reads: then the spawner says what is wrong with it.
        let is_missing = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let missing = self.config.is_some() && std::fs::metadata(&places.config).is_err_and(is_missing);
        if missing {
            return Err(PlacesError::NoConfiguration(places.config));
        }
        Ok(places)
    }

    /// Returns the places: those named, else those of the system or, with `--user`, of the user.
    ///
    /// # Errors
    /// [`PlacesError`].
    pub fn places(&self) -> Result<Places, PlacesError> {
        let mut defaults = if self.user { user_places()? } else { system_places() };
        // A spawner that runs already has its own list of directories.
        let found = std::env::current_exe()
            .ok()
            .and_then(|program| shipped_runtimes(&program));
        defaults.runtimes_inside = found.is_none() && self.runtimes.is_empty() && self.spawner_socket.is_none();
        if !defaults.runtimes_inside {
            defaults
                .runtimes
                // In front, because a later directory wins: those that a person names replace shipped runtimes.
                .insert(0, found.unwrap_or_else(|| shipped::INSTALLED.into()));
        }
        let absolute = |path: &PathBuf| {
            // Not `canonicalize`, which fails where a directory does not exist yet.
            std::path::absolute(path).map_err(|source| PlacesError::Absolute {
                path: path.clone(),
                source,
            })
        };
        let or = |named: &Option<PathBuf>, default: PathBuf| named.as_ref().map_or(Ok(default), absolute);
        let all = |named: &[PathBuf], default: Vec<PathBuf>| {
            if named.is_empty() {
                Ok(default)
            } else {
                named.iter().map(absolute).collect()
            }
        };
        Ok(Places {
            config: or(&self.config, defaults.config)?,
            functions: all(&self.functions, defaults.functions)?,
            functions_named: !self.functions.is_empty(),
            runtimes: all(&self.runtimes, defaults.runtimes)?,
            runtimes_inside: defaults.runtimes_inside,
            state: or(&self.state, defaults.state)?,
            run_dir: or(&self.run_dir, defaults.run_dir)?,
        })
    }
}

/// Returns the first directory that has the shipped runtimes and that only root or this user owns.
fn shipped_runtimes(program: &Path) -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let described = |directory: &PathBuf| {
        let meta = std::fs::metadata(directory.join("exec/runtime.toml"));
        // The author of a runtime decides what every function of it executes.
        meta.is_ok_and(|meta| [0, own].contains(&meta.uid()))
    };
    let found = shipped::directories(program).into_iter().find(described)?;
    Some(found.canonicalize().unwrap_or(found))
}

fn system_places() -> Places {
    Places {
        config: "/etc/fnd/fnd.toml".into(),
        functions: vec!["/etc/fnd/functions".into()],
        functions_named: false,
        runtimes: vec!["/etc/fnd/runtimes".into()],
        runtimes_inside: false,
        state: "/var/lib/fnd".into(),
        run_dir: "/run/fnd".into(),
    }
}

fn user_places() -> Result<Places, PlacesError> {
    let home = std::env::home_dir().ok_or(PlacesError::NoHome)?;
    let xdg = |name: &str, default: &str| std::env::var_os(name).map_or_else(|| home.join(default), PathBuf::from);
    let config = xdg("XDG_CONFIG_HOME", ".config").join("fnd");
    let state = xdg("XDG_STATE_HOME", ".local/state").join("fnd");
    let run_dir =
        // Only a login session sets this variable.
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |dir| PathBuf::from(dir).join("fnd"));
    Ok(Places {
        config: config.join("fnd.toml"),
        functions: vec![config.join("functions")],
        functions_named: false,
        runtimes: vec![xdg("XDG_DATA_HOME", ".local/share").join("fnd/runtimes")],
        runtimes_inside: false,
        state,
        run_dir,
    })
}

/// Reads an address that only this machine reaches: others have to be in `fnd.toml`, where `public = true` confirms them.
fn local(text: &str) -> Result<Address, String> {
    match Address::parse(text) {
        Some(Address::Tcp(address)) if !address.ip().is_loopback() => {
            Err("other machines can reach it: set `listen` and `public = true` in `[http]` of fnd.toml".to_owned())
        }
        Some(address) => Ok(address),
        None => {
            Err("expected an address and a port such as `127.0.0.1:8080`, or `unix:` and an absolute path".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        DaemonCli::command().debug_assert();
    }

    #[test]
    fn a_named_configuration_must_exist() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fnd.toml");
        let cli = DaemonCli::parse_from(["fnd", "--config", file.to_str().unwrap()]);
        let error = cli.places_with_configuration().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("there is no configuration file `{}`", file.display())),
            "{error}"
        );
        std::fs::write(&file, "").unwrap();
        assert_eq!(cli.places_with_configuration().unwrap().config, file);
    }

    #[test]
    fn named_places_win_and_become_absolute() {
        let cli = DaemonCli::parse_from(["fnd", "--functions", "a", "--functions", "/b", "--state", "/s"]);
        let places = cli.places().unwrap();
        assert!(places.functions[0].is_absolute() && places.functions[0].ends_with("a"));
        assert_eq!(places.functions[1], PathBuf::from("/b"));
        assert_eq!(places.state, PathBuf::from("/s"));
        assert_eq!(places.run_dir, PathBuf::from("/run/fnd"));
    }
}
