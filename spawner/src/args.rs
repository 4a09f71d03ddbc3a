//! Reads the command line; `help.txt` describes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How fnd connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketSource {
    /// fnd connects to a socket at this path.
    Listen(PathBuf),
    /// fnd passed a connected socket with this number.
    Inherited(i32),
}

/// The values of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Args {
    pub functions: Vec<PathBuf>,
    /// `fnd.toml`.
    pub config: PathBuf,
    pub runtimes: Vec<PathBuf>,
    pub state: PathBuf,
    pub run: PathBuf,
    /// How fnd connects; always given.
    pub socket: Option<SocketSource>,
    /// Name of the top-level cgroup, used outside a systemd unit.
    pub cgroup_root: Option<String>,
    /// The program that judges, unpacks, decrypts, measures and watches.
    pub helper: Option<PathBuf>,
    /// Directory of user records; without it, functions' users have no names.
    pub userdb: Option<PathBuf>,
    /// Whether functions run although a limit can't be enforced.
    pub best_effort: bool,
    /// Whether the spawner has a mount namespace of its own.
    pub private_mounts: bool,
}

/// Returns the values of the command line, given without the program's name.
///
/// # Errors
/// The mistake in the command line, for people.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, String> {
    let mut args = Args::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let shown = argument.display();
        let mut value = || {
            let value = arguments.next().filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("{shown} needs a value"))
        };
        let mut path =
            || value().and_then(|value| std::path::absolute(value).map_err(|error| format!("{shown}: {error}")));
        match argument.to_str().unwrap_or_default() {
            "--functions" => args.functions.push(path()?),
            "--runtimes" => args.runtimes.push(path()?),
            "--config" => args.config = path()?,
            "--state" => args.state = path()?,
            "--run-dir" => args.run = path()?,
            "--fnd" => args.helper = Some(path()?),
            "--userdb" => args.userdb = Some(path()?),
            "--socket" => args.socket = Some(SocketSource::Listen(path()?)),
            "--socket-fd" => {
                let number = value()?.to_str().and_then(|text| text.parse().ok()).filter(|number| *number >= 0);
                args.socket = number.map(SocketSource::Inherited);
            }
            "--cgroup-root" => {
                let name = value()?.into_string().unwrap_or_default();
                // The spawner kills and removes everything in this group, so it must not be a group of other programs.
                if !name.starts_with("fnd") || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) {
                    return Err("--cgroup-root needs a name that begins with `fnd` (letters, digits, `-`, `_`)".into());
                }
                args.cgroup_root = Some(name);
            }
            "--best-effort-limits" => args.best_effort = true,
            "--private-mounts" => args.private_mounts = true,
            _ => return Err(format!("unknown argument `{shown}`; --help lists all arguments")),
        }
    }
    let missing = [
        (args.functions.is_empty(), "--functions"),
        (args.config == Path::new(""), "--config"),
        (args.state == Path::new(""), "--state"),
        (args.run == Path::new(""), "--run-dir"),
        (args.socket.is_none(), "--socket or --socket-fd"),
    ];
    match missing.iter().find(|(missing, _)| *missing) {
        Some((_, name)) => Err(format!("{name} is missing; --help shows an example")),
        None => Ok(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Args, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_complete_or_refused() {
        let base = "--functions /f --config /c --state /s --run-dir /r";
        let args = check(&format!("{base} --functions /g --socket-fd 3")).unwrap();
        assert_eq!((args.functions.len(), args.socket), (2, Some(SocketSource::Inherited(3))));
        for bad in [
            "--functions",
            "--functions /f",
            "--what",
            base,
            &format!("{base} --socket /s --cgroup-root system.slice"),
            &format!("{base} --socket-fd -1"),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
