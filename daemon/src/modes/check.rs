//! `fnd --check`: judges configuration and every manifest as the daemon would, and starts nothing. Also determines the
//! functions directories, which the configuration may name.

use crate::cli::{Checked, DaemonCli, Places};
use crate::peer::PeerAccess;
use crate::telemetry;
use fnd_manifest::check::Disk;
use fnd_manifest::check::{check_functions, settings};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::judge::{Judge, SettingsDocument};
use fnd_manifest::runtime::shipped;
use fnd_manifest::settings::Settings;
use fnd_wire::form::Wire as _;
use fnd_wire::plan::{JudgeRequest, LAST_SETTINGS};
use fnd_wire::units::counted;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a wrong configuration or manifest (sysexits.h, `EX_CONFIG`).
const CONFIGURATION: u8 = 78;

/// Judges; prints problems to standard error and a summary line to standard output.
#[must_use]
pub fn run(cli: &DaemonCli, checked: Checked) -> ExitCode {
    let mut judge = on_this_machine();
    let places = match cli.places_with_configuration() {
        Ok(places) => places,
        Err(error) => return print(&[Diagnostic::error("places", error.to_string())], 0),
    };
    let missing = cli.runtimes.iter().filter(|directory| !directory.is_dir());
    let missing: Vec<Diagnostic> = missing.map(|directory| no_runtimes(directory)).collect();
    if !missing.is_empty() {
        return print(&missing, 0);
    }
    let document = match configure(&mut judge, &places) {
        Ok(document) => document,
        Err(diagnostics) => return print(&diagnostics, 0),
    };
    let places = with_settings(places, document.settings.as_ref());
    let mut diagnostics = document.diagnostics;
    if let Some(settings) = &document.settings {
        let (_, problems) = PeerAccess::resolve(None, &settings.access);
        diagnostics.extend(PeerAccess::warnings(problems));
    }
    let mut functions = 0;
    for directory in places.functions.iter().filter(|_| checked == Checked::All) {
        if !directory.is_dir() {
            // The directories of the installation are optional.
            if places.functions_named && *directory != places.uploads() {
                let problem = Diagnostic::error("unreadable", "there is no such directory of functions");
                let help = "correct `--functions`, or create the directory";
                diagnostics.push(problem.in_file(&directory.display().to_string()).with_help(help));
            }
            continue;
        }
        let checked = check_functions(&judge, &Disk, &directory.display().to_string());
        functions += checked.verdicts.len();
        diagnostics.extend(checked.all().cloned());
    }
    print(&diagnostics, functions)
}

/// Without its runtimes, functions would be judged by others.
fn no_runtimes(directory: &Path) -> Diagnostic {
    let problem = Diagnostic::error("unreadable", "there is no such directory of runtimes");
    let help = "correct `--runtimes` or FND_RUNTIMES, or create the directory";
    problem.in_file(&directory.display().to_string()).with_help(help)
}

/// Returns the places, with the functions directories of the configuration. If fnd may not read the configuration, only
/// the spawner judges it.
///
/// # Errors
/// The places cannot be determined.
pub fn places(cli: &DaemonCli) -> anyhow::Result<Places> {
    let places = cli.places_with_configuration()?;
    let mut judge = on_this_machine();
    let document = configure(&mut judge, &places).ok();
    let document = document.or_else(|| last_good(&mut judge, &places));
    Ok(with_settings(
        places,
        document.and_then(|document| document.settings).as_ref(),
    ))
}

/// Returns the configuration that the spawner kept, for a start with one that is refused. A spawner of root does not
/// let fnd read it, and gets the functions directories from its unit.
fn last_good(judge: &mut Judge, places: &Places) -> Option<SettingsDocument> {
    let kept = std::fs::read(places.state.join(LAST_SETTINGS)).ok()?;
    let JudgeRequest::Settings(files) = JudgeRequest::from_wire(&kept).ok()? else {
        return None;
    };
    let (_, document) = judge.settings(&files);
    document.settings.is_some().then_some(document)
}

/// Returns a judge that knows how many CPUs this process may use.
fn on_this_machine() -> Judge {
    match std::thread::available_parallelism() {
        Ok(cpus) => Judge::new().with_cpus(cpus.get()),
        Err(_) => Judge::new(),
    }
}

fn configure(judge: &mut Judge, places: &Places) -> Result<SettingsDocument, Vec<Diagnostic>> {
    let (config, runtimes) = places.judged();
    let mut files = settings(&Disk, &config, &runtimes)?;
    if places.runtimes_inside {
        // In front, because a later description wins: a person's runtime replaces a shipped one of the same id.
        files.runtimes.splice(0..0, shipped::descriptions());
    }
    let (_, document) = judge.settings(&files);
    if document.settings.is_some() {
        Ok(document)
    } else {
        Err(document.diagnostics)
    }
}

fn with_settings(mut places: Places, settings: Option<&Settings>) -> Places {
    let named = settings.and_then(|settings| settings.functions_dirs.as_ref());
    if let Some(directories) = named.filter(|_| !places.functions_named) {
        places.functions = directories.iter().map(PathBuf::from).collect();
    }
    places.add_uploads();
    places
}

fn print(diagnostics: &[Diagnostic], functions: usize) -> ExitCode {
    let mut stderr = io::stderr();
    let colour = telemetry::colour();
    for diagnostic in diagnostics {
        let _ = writeln!(stderr, "{}\n", diagnostic.render(colour)); // an error: closed; the exit code tells it too
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    // Standard output may be closed: the exit code tells the result, too.
    let _ = writeln!(
        io::stdout(),
        "{}, {}",
        counted(functions, "function", "functions"),
        counted(errors, "error", "errors")
    ); // as above
    if errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CONFIGURATION)
    }
}
