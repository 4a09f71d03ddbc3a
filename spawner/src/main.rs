//! Arguments in, exit code out.

use fnd_spawner::args::{self, HELP, Wanted};
use fnd_spawner::spawner::Spawner;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut stdout = std::io::stdout();
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Wanted::Help) => drop(stdout.write_all(HELP.as_bytes())),
        Ok(Wanted::Version) => drop(writeln!(stdout, "fnd-spawner {}", env!("CARGO_PKG_VERSION"))),
        Ok(Wanted::Run(args)) => {
            if let Err(error) = Spawner::start(*args).and_then(Spawner::run) {
                fnd_spawner::log!("{error}");
                return ExitCode::FAILURE;
            }
        }
        Err(error) => {
            fnd_spawner::log!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
