//! The first step of the start: there is a spawner that knows this fnd.

use super::spawner_process;
use crate::cli::{DaemonCli, Places};
use crate::clock::Clock;
use crate::settings::CurrentSettings;
use crate::workers::adoption;
use crate::workers::link::SpawnerConnection;
use fnd_core::api::LAYERS;
use fnd_manifest::diagnostic::Colour;
use fnd_wire::frame::{Exited, Masked, Welcome};
use std::path::PathBuf;
use std::process::Child;

/// The link to the spawner, and everything that the spawner sent.
pub(crate) struct Connected {
    pub(crate) clock: Clock,
    /// The spawner's process, where it is fnd's child.
    pub(crate) child: Option<Child>,
    pub(crate) connection: SpawnerConnection,
    pub(crate) welcome: Welcome,
    /// The directory in which the spawner makes directories for sockets of programs that serve HTTP.
    pub(crate) sockets: PathBuf,
    /// The configuration in force.
    pub(crate) current: CurrentSettings,
    /// Workers of an earlier fnd.
    pub(crate) held: Vec<adoption::AdoptedWorker>,
    /// The fingerprints of the secrets of some of them.
    pub(crate) masks: Vec<Masked>,
    /// The ends of some of them.
    pub(crate) exits: Vec<Exited>,
}

impl Connected {
    /// Finds or starts the spawner, and greets it. `colour` is for the problems of a configuration that is refused.
    pub(super) async fn new(cli: &DaemonCli, places: &Places, colour: Colour) -> anyhow::Result<Self> {
        let clock = Clock::start();
        spawner_process::last_one_ended(cli, places).await;
        let (socket, child) = spawner_process::spawner(cli, places)?;
        Ok(Self::greeted(SpawnerConnection::new(socket)?, child, clock, colour).await?)
    }
}

/// Logs which limits and which layers of the sandbox this machine cannot give.
pub(super) fn report_missing(missing: &[(String, String)]) {
    let names = missing.iter().map(|(name, _)| name.as_str());
    // A kernel before Linux 6.12 has no Landlock with scopes. That is no fault of the machine.
    let (layers, limits): (Vec<&str>, Vec<&str>) = names
        .filter(|name| *name != "landlock")
        .partition(|name| LAYERS.contains(name));
    for (what, names) in [
        ("limits cannot be enforced", limits),
        ("layers of the sandbox cannot be built", layers),
    ] {
        if !names.is_empty() {
            let names = names.join(", ");
            tracing::warn!("these {what} here: {names}; `fndctl status -o wide` says why");
        }
    }
}
