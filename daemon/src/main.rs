//! `fnd`: turns files into supervised functions.

use clap::Parser;
use fnd_daemon::cli::DaemonCli;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = DaemonCli::parse();
    if cli.judge {
        // The spawner sees the end of the process and reports it.
        return fnd_daemon::modes::judge::run(cli.protocol).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if cli.decrypt {
        return fnd_daemon::modes::decrypt::run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if cli.find_secret {
        return fnd_daemon::modes::find_secret::run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let Some(suffix) = &cli.unpack {
        return fnd_daemon::modes::unpack::run(suffix).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if cli.encrypt {
        return fnd_daemon::modes::decrypt::run_encrypt();
    }
    if cli.keygen {
        return fnd_daemon::modes::decrypt::run_keygen();
    }
    if cli.watch {
        return fnd_daemon::modes::watch::run();
    }
    if let Some(directories) = &cli.measure {
        return fnd_daemon::modes::measure::run(directories);
    }
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
