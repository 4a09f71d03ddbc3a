//! The handshake with fnd-spawner: agrees on the protocol, and gets the spawner's abilities and the configuration it
//! read.

use super::connected::{Connected, report_missing};
use crate::clock::Clock;
use crate::settings::CurrentSettings;
use crate::workers::adoption;
use crate::workers::link::{ConnectionError, SpawnerConnection};
use fnd_manifest::diagnostic::{Colour, Severity};
use fnd_wire::frame::{Hello, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request, SettingsRead};
use std::path::PathBuf;
use std::process::Child;

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

impl Connected {
    /// Greets the spawner, and receives everything that it sends at first. `child` is its process, where it is fnd's child.
    ///
    /// # Errors
    /// [`HandshakeError`].
    pub(crate) async fn greeted(
        mut connection: SpawnerConnection,
        child: Option<Child>,
        clock: Clock,
        colour: Colour,
    ) -> Result<Self, HandshakeError> {
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
            let incoming = connection.next().await?;
            match incoming.reply {
                Reply::Welcome(welcomed) => welcome = Some(welcomed),
                Reply::Sockets(directory) => sockets = Some(PathBuf::from(directory)),
                Reply::Settings(read) => {
                    // The spawner sends the settings last, so its workers and its versions have been received before.
                    let current = settings(read, connection.peer_uid(), colour)?;
                    let (Some(welcome), Some(sockets)) = (welcome, sockets) else {
                        return Err(HandshakeError::Refused("it sent no answer to the handshake".into()));
                    };
                    report_missing(&welcome.missing);
                    return Ok(Self {
                        clock,
                        child,
                        connection,
                        welcome,
                        sockets,
                        current,
                        held: adoption::read(held, clock.now().mono),
                        masks,
                        exits,
                    });
                }
                Reply::Failed(message) => return Err(HandshakeError::Refused(message)),
                Reply::Held(worker) | Reply::HeldWithChannel(worker) => held.push((worker, incoming.descriptors)),
                Reply::Masks(masked) => masks.push(masked),
                Reply::Exited(exited) => exits.push(exited),
                // Answers to requests of the fnd before this one.
                Reply::Done
                | Reply::Swept(_)
                | Reply::Secret
                | Reply::SecretRefused(_)
                | Reply::Files(_)
                | Reply::Sealed(_) => {}
                // The spawner answers requests of an earlier connection with the number 0.
                Reply::Installed(_) | Reply::Refused(_) | Reply::NeedsBuild(_) | Reply::InstalledWithTree(_)
                    if incoming.request == 0 => {}
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
}

fn settings(read: SettingsRead, spawner_uid: Option<u32>, colour: Colour) -> Result<CurrentSettings, HandshakeError> {
    // The spawner may have refused a configuration in which the judge saw no error.
    let applied = read.applied;
    let document = crate::settings::settings_document(read)
        .map_err(|error| HandshakeError::Refused(format!("its configuration cannot be read: {error}")))?;
    let errors = document
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|diagnostic| diagnostic.render(colour)).collect();
    let current = CurrentSettings::new(document, spawner_uid).filter(|_| applied);
    current.ok_or(HandshakeError::Configuration(errors.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::judge::Judge;
    use fnd_wire::frame::{Containment, MemoryGroups, PROTOCOL_0_1, Welcome, decode, encode, packets};
    use fnd_wire::ids::WorkerId;
    use fnd_wire::plan::{JudgeReply, JudgeRequest, JudgeSettings};
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

    /// Performs the handshake with a spawner that answers with these replies; returns the request, too.
    fn shaken(replies: &[Reply]) -> (Hello, Result<(Welcome, PathBuf), HandshakeError>) {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        for packet in replies.iter().flat_map(|reply| packets(&encode(1, reply))) {
            send(&theirs, &packet, SendFlags::empty()).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let result = runtime.block_on(async {
            let connection = SpawnerConnection::new(ours).unwrap();
            let greeted = Connected::greeted(connection, None, Clock::start(), Colour::Plain).await;
            greeted.map(|connected| (connected.welcome, connected.sockets))
        });
        let mut frame = [0; 64];
        let (_, length) = recv(&theirs, &mut frame[..], RecvFlags::empty()).unwrap();
        let (_, Request::Hello(hello)) = decode(&frame[1..length]).unwrap() else {
            panic!("another request");
        };
        (hello, result)
    }

    #[test]
    fn the_spawner_of_fnd_0_1_is_understood() {
        let welcome = Welcome {
            protocol: PROTOCOL_0_1,
            version: "0.1.0".to_owned(),
            containment: Containment::Cgroup,
            layout: "v2".to_owned(),
            missing: Vec::new(),
            next_worker: WorkerId(1),
            functions_dirs: Vec::new(),
            memory: MemoryGroups::None,
        };
        let settings = JudgeRequest::Settings(JudgeSettings {
            files: Vec::new(),
            runtimes: Vec::new(),
        });
        let JudgeReply::OldSettings(verdict) = Judge::new().answer(&settings).for_0_1() else {
            panic!("another answer");
        };
        let read = SettingsRead {
            document: verdict.document,
            problems: Vec::new(),
            applied: true,
        };
        let sockets = Reply::Sockets("/run/fnd-spawner/http".to_owned());
        let (hello, result) = shaken(&[Reply::Welcome(welcome.clone()), sockets, Reply::Settings(read.clone())]);
        // That spawner supports the protocols 1 to 3.
        assert!(hello.min <= PROTOCOL_0_1 && hello.max >= 1, "{hello:?}");
        let (welcomed, sockets) = result.unwrap_or_else(|error| panic!("{error}"));
        assert!(welcomed.is_of_0_1());
        assert_eq!(sockets, PathBuf::from("/run/fnd-spawner/http"));
        let (_, result) = shaken(&[Reply::Welcome(welcome), Reply::Settings(read)]);
        assert!(
            matches!(result, Err(HandshakeError::Refused(_))),
            "no released spawner leaves it out"
        );
    }
}
