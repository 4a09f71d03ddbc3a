//! The handshake with fnd-spawner: agrees on the protocol, and gets the spawner's abilities and the configuration it
//! read.

use crate::settings::CurrentSettings;
use crate::workers::link::{ConnectionError, Incoming, SpawnerConnection};
use fnd_manifest::diagnostic::{Colour, Severity};
use fnd_wire::frame::{
    Exited, Hello, Masked, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request, RetainedWorker, SettingsRead, Welcome,
};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Why fnd and the spawner cannot work together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error("failed to begin the handshake with fnd-spawner")]
    Connection(#[from] ConnectionError),
    #[error("fnd-spawner refused to work with this fnd: {0}")]
    Refused(String),
    /// The configuration is wrong (exit code 78). Contains the rendered diagnostics.
    #[error("the configuration is not valid\n{0}")]
    Configuration(String),
}

/// The result of the handshake.
pub struct Handshake {
    /// The spawner's description of itself.
    pub welcome: Welcome,
    /// The directory in which the spawner makes directories for sockets of programs that serve HTTP; absent where the
    /// spawner is older than that.
    pub sockets: Option<PathBuf>,
    /// The configuration in force.
    pub current: CurrentSettings,
    /// Workers of an earlier fnd, with their descriptors.
    pub held: Vec<(RetainedWorker, Vec<OwnedFd>)>,
    /// The fingerprints of the secrets of some of them.
    pub masks: Vec<Masked>,
    /// The ends of some of them.
    pub exits: Vec<Exited>,
}

/// Performs the handshake.
///
/// # Errors
/// [`HandshakeError`].
pub async fn with(connection: &mut SpawnerConnection, colour: Colour) -> Result<Handshake, HandshakeError> {
    connection.send(
        &Request::Hello(Hello {
            min: PROTOCOL_MIN,
            max: PROTOCOL_MAX,
        }),
        Vec::new(),
    )?;
    let (mut welcome, mut sockets) = (None, None);
    let (mut held, mut masks, mut exits) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let Incoming {
            request,
            reply,
            descriptors,
        } = connection.next().await?;
        match reply {
            Reply::Welcome(welcomed) => welcome = Some(welcomed),
            Reply::Sockets(directory) => sockets = Some(PathBuf::from(directory)),
            Reply::Settings(read) => {
                // The spawner sends the settings last, so its workers and its versions have been received before.
                let current = settings(read, connection.peer_uid(), colour)?;
                let welcome =
                    welcome.ok_or_else(|| HandshakeError::Refused("it sent no answer to the handshake".into()))?;
                return Ok(Handshake {
                    welcome,
                    sockets,
                    current,
                    held,
                    masks,
                    exits,
                });
            }
            Reply::Failed(message) => return Err(HandshakeError::Refused(message)),
            Reply::Held(worker) | Reply::HeldWithChannel(worker) => held.push((worker, descriptors)),
            Reply::Masks(masked) => masks.push(masked),
            Reply::Exited(exited) => exits.push(exited),
            // Answers to requests of the fnd before this one.
            Reply::Done
            | Reply::Swept(_)
            | Reply::Secret
            | Reply::SecretRefused(_)
            | Reply::Files(_)
            | Reply::Sealed(_) => {}
            Reply::Installed(_) | Reply::Refused(_) | Reply::NeedsBuild(_) | Reply::InstalledWithTree(_)
                if request == 0 => {}
            Reply::Installed(_)
            | Reply::NeedsBuild(_)
            | Reply::InstalledWithTree(_)
            | Reply::Refused(_)
            | Reply::Spawned(_)
            | Reply::SpawnedWithChannel(_)
            | Reply::SpawnFailed(_)
            | Reply::NodeCannotStart(_) => {
                return Err(HandshakeError::Refused("it sent an unexpected answer".into()));
            }
        }
    }
}

fn settings(read: SettingsRead, spawner_uid: Option<u32>, colour: Colour) -> Result<CurrentSettings, HandshakeError> {
    // The spawner may have refused a configuration in which the judge saw no error.
    let applied = read.applied;
    let document = crate::functions::install::settings_document(read)
        .map_err(|error| HandshakeError::Refused(format!("its configuration cannot be read: {error}")))?;
    let errors = document
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|diagnostic| diagnostic.render(colour)).collect();
    let current = CurrentSettings::new(document, spawner_uid).filter(|_| applied);
    current.ok_or(HandshakeError::Configuration(errors.join("\n")))
}
