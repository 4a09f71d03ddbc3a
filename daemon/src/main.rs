//! `fnd`: turns files into supervised functions.

use clap::Parser;
use fnd_daemon::cli::DaemonCli;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    // Before the command line is parsed, which does not know the tasks of the helper.
    if let Some(failed) = fnd_daemon::modes::helper::replace(&arguments) {
        let _ = writeln!(std::io::stderr(), "error: {failed}"); // an error: closed; the exit code tells it too
        return ExitCode::FAILURE;
    }
    let cli = DaemonCli::parse();
    if let Some(path) = &cli.examine {
        return fnd_daemon::modes::examine::run(&cli, path);
    }
    if let Some(checked) = cli.check {
        return fnd_daemon::modes::check::run(&cli, checked);
    }
    match fnd_daemon::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed: the exit code tells the failure too.
            let _ = writeln!(std::io::stderr(), "error: {}", fnd_daemon::chain(error.as_ref()));
            ExitCode::from(fnd_daemon::exit_code(&error))
        }
    }
}
