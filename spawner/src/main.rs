//! Reads the arguments, runs the spawner and returns the exit code.

use fnd_spawner::args;
use fnd_spawner::spawner::Spawner;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let text = match arguments.first().and_then(|first| first.to_str()) {
        Some("--help" | "-h") => include_str!("help.txt"),
        Some("--version") => concat!("fnd-spawner ", env!("CARGO_PKG_VERSION"), "\n"),
        _ => "",
    };
    if !text.is_empty() {
        drop(std::io::stdout().write_all(text.as_bytes()));
        return ExitCode::SUCCESS;
    }
    let (result, code) = match args::parse(arguments) {
        Ok(args) => (Spawner::start(args).and_then(Spawner::run), 1),
        Err(error) => (Err(error), 2),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    fnd_spawner::log!("{error}");
    ExitCode::from(code)
}
