//! `fndctl verify`: checks everything fnd keeps for damage and for leftovers; `--repair` repairs what is safe to
//! repair.
//!
//! `fnd --examine` ([`crate::common::examine`]) checks the ledger and `in-flight`, and
//! [`crate::health::uids`] the table of users and the homes. `leftovers.rs` finds directories that are not needed any more. The daemon is only asked for
//! its places.
//!
//! Files:
//! - `leftovers`: directories of ended invocations and deleted functions

mod leftovers;

use crate::common::examine::{ExaminedSubject, examine};
use crate::common::state_directory::{lock, state_directory};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::health::finding::{Finding, report};
use crate::health::ledger::of_ledger;
use crate::health::uids;
use fnd_core::verify_report::FindingLevel;
use fnd_wire::units::counted;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "verify checks the ledger (every page, index and row), the state of functions, the attempts that were running when fnd ended (`in-flight`), output that the \
    next start takes over (`spool`), and the users of functions (`uids`) with their homes. It also finds leftovers: TMPDIRs of ended runs, \
    and installed versions of deleted functions. Run it as root (with --user as yourself).\n\n\
    It also works while fnd runs, and then says what it cannot check. It exits with 1 if there is a warning or an error.\n\n\
    --repair makes the safe repairs. It sets a damaged ledger aside and copies all readable rows into a new one. It confirms the notice \
    about a ledger that fnd set aside itself, so that fnd accepts asynchronous work again. It removes leftovers, but never a home. Only the \
    confirmation works while fnd runs; for the rest stop fnd first: systemctl stop fnd.socket fnd fnd-spawner\n\nExamples:\n  \
    sudo fndctl verify\n  \
    sudo fndctl verify --repair\n  \
    fndctl verify -o json | jq '.findings[] | select(.level != \"ok\")'"
)]
pub(crate) struct Args {
    /// Make the safe repairs.
    #[arg(long)]
    repair: bool,

    /// Check this state directory [default: the daemon's, else /var/lib/fnd].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// # Errors
/// The program `fnd` is not there, or standard output cannot be written.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let state = match args.state {
        // `fnd --examine` runs in the directory `/`, so the path must be absolute.
        Some(state) => std::path::absolute(&state).map_err(|error| {
            CommandFailure::usage(format!("failed to make `{}` absolute: {error}", state.display()))
        })?,
        None => state_directory(context).await?,
    };
    if !state.is_dir() {
        let message = format!("there is no state directory `{}`", state.display());
        let help = "name it with --state DIR; fnd creates it at its first start";
        return Err(CommandFailure::usage(message).help(help));
    }
    // The control socket lies in the run directory.
    let run = context.client.path().parent().unwrap_or(Path::new("/run/fnd"));
    let own = state.join("state");
    // fnd reads its history when the records of all earlier ends are stored. Without an fnd there is nothing to wait for.
    let _ = context.client.get("/v1/invocations?limit=1").await;
    let examined = examine(&ExaminedSubject {
        path: &state,
        owner: &own,
        run,
        repair: args.repair,
    })?;
    let mut findings = of_ledger(&examined);
    findings.push(spool(&own.join("spool"), examined.running));
    let table = uids::scan(&state);
    findings.extend(uids::judge(&table));
    // Functions continue to run below the spawner while fnd restarts.
    let busy = examined.running || is_locked(&state.join("spawner/uids"));
    let leftovers = leftovers::scan(&state, &table, &examined, busy);
    if args.repair && !busy {
        findings.extend(repair(&state, leftovers)?);
    } else {
        findings.extend(leftovers::judge(&leftovers, busy));
    }
    if args.repair && examined.running {
        let what =
            "fnd is running: only the notice about a ledger that was set aside is confirmed, and nothing is repaired";
        findings.push(Finding::unknown("repair", what).fix("sudo systemctl stop fnd.socket fnd fnd-spawner"));
    }
    let wrong = findings.iter().any(|finding| finding.level == FindingLevel::Warning);
    let exit = report(&context.out, findings)?;
    Ok(if wrong { Exit::FunctionFailed } else { exit })
}

/// Checks output that was read from functions and is not stored yet.
fn spool(directory: &Path, running: bool) -> Finding {
    let place = directory.display().to_string();
    let finding = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::ok("spool", "there is no spooled output")
        }
        Err(error) => Finding::unknown("spool", format!("it cannot be read: {error}")),
        Ok(entries) => {
            let files = counted(entries.count(), "file", "files");
            let whose = match running {
                true => "of running attempts",
                false => "that the next start takes over",
            };
            Finding::ok("spool", format!("{files} of output {whose}"))
        }
    };
    finding.at(place)
}

/// Returns whether a running program has locked a file. A file that is missing or may not be opened counts as not
/// locked.
fn is_locked(path: &Path) -> bool {
    // Without `O_NONBLOCK`, opening a pipe of this name would wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    // The lock is a shared one, so that another `verify` is not taken for a running spawner.
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Removes leftovers, while neither fnd nor fnd-spawner can start.
fn repair(state: &Path, leftovers: leftovers::Leftovers) -> Result<Vec<Finding>, CommandFailure> {
    // Both locks are held until the leftovers are removed.
    let _fnd = lock(state)?;
    let mut options = File::options();
    let table = options.read(true).custom_flags(libc::O_NOFOLLOW);
    // Without a table of users no spawner has ever run with this state, so there is nothing to lock. A spawner that started
    // meanwhile has read the table and holds its lock.
    let table = table.open(state.join("spawner/uids")).ok();
    let _spawner = table.filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok());
    Ok(leftovers::remove(leftovers))
}
