//! `fnd --examine`: examines the ledger and the state of functions for `fndctl verify`, as the owner of the state, since only this program knows
//! the ledger.

use crate::cli::{DaemonCli, PlacesError};
use crate::ledger::{self, examine};
use crate::stores::database::StorePlaces;
use crate::stores::kv;
use fnd_core::verify_report::Examined;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Examines a state directory or a database, and prints the findings as JSON.
#[must_use]
pub fn run(cli: &DaemonCli, path: &Path) -> ExitCode {
    let examined = match examined(cli, path) {
        Ok(examined) => examined,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", crate::chain(&error)); // an error: the exit code tells it too
            return ExitCode::FAILURE;
        }
    };
    let json = serde_json::to_vec(&examined).unwrap_or_default(); // texts and numbers
    match std::io::stdout().write_all(&json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn examined(cli: &DaemonCli, path: &Path) -> Result<Examined, PlacesError> {
    if path.is_dir() {
        let (own, run) = (path.join("state"), cli.places()?.run_dir.join(ledger::RUN));
        let mut examined = examine::site(examine::site_of(&own, &run), cli.repair);
        let places = StorePlaces { state: own, run };
        kv::examine::site(&places, cli.repair, &mut examined);
        return Ok(examined);
    }
    let mut examined = Examined::default();
    // A file out of a backup has only its name to tell which database it is.
    match path.file_name().is_some_and(|name| name == kv::FILE) {
        true => kv::examine::file(path, &mut examined),
        false => examine::file(path, &mut examined),
    }
    Ok(examined)
}
