//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` says.
pub const HELP: &str = "\
fnd-spawner: starts, limits and kills what fnd names; the only part of fnd that runs as root.
It is started by systemd or by fnd, rarely by hand.

Usage: fnd-spawner --functions DIR... --config FILE --state DIR --run-dir DIR [--runtimes DIR...]
                   [--socket PATH | --socket-fd N] [--cgroup-root NAME] [--fnd PATH] [--best-effort-limits]

  --functions DIR       functions directory; may be given several times, fnd names them by their order
  --config FILE         fnd.toml; conf.d/*.toml beside it is merged over it. A file that is absent counts as empty
  --runtimes DIR        holds ID/runtime.toml; may be given several times, a later one of the same ID wins
  --state DIR           state: installed versions, homes, the uid table
  --run-dir DIR         what lives until the next boot
  --socket PATH         listen here for fnd (a socket passed by systemd is taken instead)
  --socket-fd N         talk to fnd over this inherited socket; its end ends everything that was started
  --cgroup-root NAME    top-level cgroup made outside a systemd unit; default fnd-PID
  --fnd PATH            fnd, run as `fnd --judge`; default: beside this program, else /usr/sbin/fnd
  --best-effort-limits  go on where a limit that a manifest asks for can't be enforced
  --help, --version

Example, as root:  fnd-spawner --functions /etc/fnd/functions --config /etc/fnd/fnd.toml \\
                     --runtimes /usr/lib/fnd/runtimes --state /var/lib/fnd --run-dir /run/fnd-spawner \\
                     --socket /run/fnd/spawner.sock
";

/// Where fnd is met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Meeting {
    /// Listening on what systemd passed.
    #[default]
    Passed,
    /// Listening on a path, unless systemd passed something.
    Listen(PathBuf),
    /// An inherited connected socket.
    Inherited(i32),
}

/// The command line, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Args {
    /// Functions directories.
    pub functions: Vec<PathBuf>,
    /// `fnd.toml`.
    pub config: PathBuf,
    /// Runtimes directories.
    pub runtimes: Vec<PathBuf>,
    /// State directory.
    pub state: PathBuf,
    /// Run directory.
    pub run: PathBuf,
    /// Where fnd is met.
    pub meeting: Meeting,
    /// Top-level cgroup outside a unit.
    pub cgroup_root: Option<String>,
    /// fnd, for the judge.
    pub fnd: Option<PathBuf>,
    /// Goes on where a limit can't be enforced.
    pub best_effort: bool,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// `--help`.
    Help,
    /// `--version`.
    Version,
    /// To run.
    Run(Box<Args>),
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// What is wrong with it.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Wanted, String> {
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
            "--help" | "-h" => return Ok(Wanted::Help),
            "--version" => return Ok(Wanted::Version),
            "--functions" => args.functions.push(path()?),
            "--runtimes" => args.runtimes.push(path()?),
            "--config" => args.config = path()?,
            "--state" => args.state = path()?,
            "--run-dir" => args.run = path()?,
            "--fnd" => args.fnd = Some(path()?),
            "--socket" => args.meeting = Meeting::Listen(path()?),
            "--socket-fd" => {
                let number = value()?.to_str().and_then(|text| text.parse().ok()).filter(|number| *number >= 0);
                args.meeting = Meeting::Inherited(number.ok_or("--socket-fd needs the number of a descriptor")?);
            }
            "--cgroup-root" => {
                let name = value()?.into_string().unwrap_or_default();
                if !name.starts_with("fnd") || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) {
                    return Err(
                        "--cgroup-root needs a name of letters, digits, `-` and `_`, beginning with `fnd`".into()
                    );
                }
                args.cgroup_root = Some(name);
            }
            "--best-effort-limits" => args.best_effort = true,
            _ => return Err(format!("unknown argument `{shown}`; --help lists all")),
        }
    }
    let nowhere = PathBuf::new();
    let first = args.functions.first().unwrap_or(&nowhere);
    for (path, name) in
        [(first, "--functions"), (&args.config, "--config"), (&args.state, "--state"), (&args.run, "--run-dir")]
    {
        if *path == nowhere {
            return Err(format!("{name} is missing; --help shows an example"));
        }
    }
    Ok(Wanted::Run(Box::new(args)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Wanted, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_complete_or_refused() {
        let base = "--functions /f --config /c --state /s --run-dir /r";
        let Ok(Wanted::Run(args)) = check(&format!("{base} --functions /g --socket-fd 3")) else { panic!("refused") };
        assert_eq!((args.functions.len(), args.meeting), (2, Meeting::Inherited(3)));
        assert_eq!(check("--help"), Ok(Wanted::Help));
        for bad in [
            "--functions",
            "--functions /f",
            "--what",
            &format!("{base} --cgroup-root system.slice"),
            &format!("{base} --socket-fd -1"),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
