//! The first step of the start: there is a spawner that knows this fnd.

use super::handshake::{self, Handshake};
use super::spawner_process::{self, Spawner};
use crate::cli::{Cli, Places};
use crate::clock::Clock;
use crate::settings::Current;
use crate::workers::adoption;
use crate::workers::link::Connection;
use fnd_manifest::diagnostic::Colour;
use fnd_wire::frame::{Exited, Welcome};
use std::path::PathBuf;
use std::process::Child;

/// The link to the spawner, and everything that the spawner sent.
pub(super) struct Connected {
    pub(super) clock: Clock,
    /// The spawner's process, where it is fnd's child.
    pub(super) child: Option<Child>,
    pub(super) connection: Connection,
    pub(super) welcome: Welcome,
    pub(super) sockets: Option<PathBuf>,
    pub(super) current: Current,
    /// Workers of an earlier fnd.
    pub(super) held: Vec<adoption::Worker>,
    /// The ends of some of them.
    pub(super) exits: Vec<Exited>,
}

impl Connected {
    /// Finds or starts the spawner, and greets it. `colour` is for the problems of a configuration that is refused.
    pub(super) async fn new(cli: &Cli, places: &Places, colour: Colour) -> anyhow::Result<Self> {
        let clock = Clock::start();
        spawner_process::last_one_ended(cli, places).await;
        let Spawner { socket, child } = spawner_process::spawner(cli, places)?;
        let mut connection = Connection::new(socket)?;
        let Handshake {
            welcome,
            sockets,
            current,
            held,
            exits,
        } = handshake::with(&mut connection, colour).await?;
        if !welcome.missing.is_empty() {
            let limits: Vec<&str> = welcome.missing.iter().map(|(limit, _)| limit.as_str()).collect();
            let limits = limits.join(", ");
            tracing::warn!("these limits cannot be enforced here: {limits}; `fndctl status -o wide` says why");
        }
        Ok(Self {
            clock,
            child,
            connection,
            welcome,
            sockets,
            current,
            held: adoption::read(held, clock.now().mono),
            exits,
        })
    }
}
