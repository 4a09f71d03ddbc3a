//! The start of fnd: connects the parts in their order, and decides nothing.
//!
//! Files:
//! - `connected`: the first step: there is a spawner that knows this fnd
//! - `fuzzing`: the control server of a small daemon, for the fuzzer
//! - `hand_over`: hands the workers over to the next fnd
//! - `handshake`: the first messages with the spawner
//! - `opened`: the second step: everything on the disk is open
//! - `runtimes`: the runtimes inside the program, as files
//! - `serving`: the last step: callers are served until a stop
//! - `signals`: signals and the stop
//! - `spawner_process`: finds or starts the spawner
//! - `starter`: the program that started a private fnd
//! - `watches`: tasks that watch something for as long as fnd runs

pub(crate) mod connected;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod hand_over;
pub mod handshake;
pub(crate) mod opened;
mod runtimes;
pub(crate) mod serving;
pub(crate) mod signals;
pub mod spawner_process;
mod starter;
#[cfg(test)]
pub(crate) mod tests;
mod watches;

use crate::cli::{DaemonCli, Places};
use crate::driver::DriverMessage;
use crate::ledger;
use crate::modes::check;
use crate::telemetry;
use connected::Connected;
use opened::OpenedStores;
use serving::ServingDaemon;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Runs fnd until it is stopped.
pub(crate) async fn serve(cli: &DaemonCli) -> anyhow::Result<()> {
    let ended = run(cli).await;
    starter::remove_files(cli);
    ended
}

/// Takes the steps of the start. Each step consumes the one before.
async fn run(cli: &DaemonCli) -> anyhow::Result<()> {
    let mut places = check::places(cli)?;
    prepare(&places)?;
    if cli.user {
        // Nobody else makes the functions directories of a user's own fnd.
        let own = |directory: &PathBuf| make("functions directory", directory, 0o700);
        places.functions.iter().try_for_each(own)?;
    }
    if places.runtimes_inside {
        places.runtimes.insert(0, runtimes::unpack(&places.state)?);
    }
    let target = telemetry::target(std::env::var("JOURNAL_STREAM").ok().as_deref());
    let _telemetry = telemetry::start(std::env::var("FND_LOG").ok().as_deref(), target)?;
    // The lock comes before the spawner is greeted: a second fnd on this state must not take over the workers.
    let _lock = ledger::lock_state(&own_state(&places))?;
    let connected = Connected::new(cli, &places, telemetry::colour()).await?;
    let opened = OpenedStores::new(connected, &places)?;
    ServingDaemon::new(opened, cli, &places)?
        .until_stopped(cli, &places)
        .await
}

/// Returns the directory of fnd's own state. Where fnd-spawner runs as root, the directory above is root's: root writes
/// only below directories that no other user can change.
pub(crate) fn own_state(places: &Places) -> PathBuf {
    places.state.join("state")
}

fn make(what: &str, path: &Path, mode: u32) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.with_context(|| format!("failed to make the {what} `{}`", path.display()))
}

/// Makes the directories fnd writes to.
pub(crate) fn prepare(places: &Places) -> anyhow::Result<()> {
    let make = |path: &Path, mode| make("directory", path, mode);
    // Functions reach their code and home through this directory by name; everything below has modes of its own.
    make(&places.state, 0o711)?;
    make(&own_state(places), 0o700)?;
    make(&places.uploads(), 0o750)?;
    make(&places.run_dir, 0o755)?;
    make(&places.run_dir.join("status"), 0o755)?;
    make(&places.run_dir.join("marks"), 0o700)?;
    make(&places.run_dir.join(ledger::RUN), 0o700)
}

/// Returns a call that tells the driver of changed problems.
fn problems_changed(driver: &mpsc::UnboundedSender<DriverMessage>) -> impl Fn() + Clone + Send + Sync + use<> {
    let driver = driver.clone();
    move || drop(driver.send(DriverMessage::ProblemsChanged)) // an error: fnd is stopping, and nobody reads the problems
}
