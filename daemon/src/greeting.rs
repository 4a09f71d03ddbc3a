//! The first words with fnd-spawner: which protocol, what it can enforce, and the configuration it read.

use crate::settings::Current;
use crate::workers::spawner::{Connection, ConnectionError, Incoming};
use fnd_core::diagnostic::{Colour, Severity};
use fnd_core::frame::{Document, Hello, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request, Welcome};
use fnd_core::judge::SettingsDocument;

/// Why fnd and its spawner cannot work together.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The connection broke.
    #[error("failed to greet fnd-spawner")]
    Connection(#[from] ConnectionError),
    /// It refused.
    #[error("fnd-spawner refused to work with this fnd: {0}")]
    Refused(String),
    /// The configuration is wrong: exit 78. The diagnostics, rendered.
    #[error("the configuration is not valid\n{0}")]
    Configuration(String),
}

/// Greets; returns what the spawner is and the configuration in force.
///
/// # Errors
/// [`GreetingError`].
pub async fn greet(connection: &mut Connection, colour: Colour) -> Result<(Welcome, Current), GreetingError> {
    connection.send(
        &Request::Hello(Hello {
            min: PROTOCOL_MIN,
            max: PROTOCOL_MAX,
        }),
        Vec::new(),
    )?;
    let mut welcome = None;
    loop {
        let Incoming { reply, descriptors, .. } = next(connection).await?;
        match reply {
            Reply::Welcome(greeted) => welcome = Some(greeted),
            Reply::Settings(read) => {
                let problems: Vec<String> = read
                    .problems
                    .iter()
                    .map(|problem| format!("{}: {}\nhelp: {}", problem.file, problem.message, problem.help))
                    .collect();
                if !problems.is_empty() {
                    return Err(GreetingError::Configuration(problems.join("\n")));
                }
                let current = settings(read.document, descriptors, colour)?;
                let welcome = welcome.ok_or_else(|| GreetingError::Refused("it sent no welcome".into()))?;
                return Ok((welcome, current));
            }
            Reply::Failed(message) => return Err(GreetingError::Refused(message)),
            // Ends of workers of an earlier fnd, which are killed and recorded as interrupted by the ledger's own knowledge.
            Reply::Exited(_) | Reply::Done => {}
            Reply::Installed(_) | Reply::Refused(_) | Reply::Spawned(_) | Reply::SpawnFailed(_) => {
                return Err(GreetingError::Refused("it answered what was not asked".into()));
            }
        }
    }
}

fn settings(
    document: Document,
    descriptors: Vec<std::os::fd::OwnedFd>,
    colour: Colour,
) -> Result<Current, GreetingError> {
    let document: SettingsDocument = crate::incoming::read_document(document, &mut descriptors.into_iter())
        .map_err(|error| GreetingError::Refused(format!("its configuration cannot be read: {error}")))?;
    let errors = document
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|diagnostic| diagnostic.render(colour)).collect();
    Current::new(document).ok_or(GreetingError::Configuration(errors.join("\n")))
}

async fn next(connection: &mut Connection) -> Result<Incoming, ConnectionError> {
    loop {
        let socket = connection.socket();
        let mut ready = socket.ready(connection.interest()).await.map_err(ConnectionError::Io)?;
        connection.flush()?;
        if let Some(incoming) = connection.receive()? {
            return Ok(incoming);
        }
        ready.clear_ready();
    }
}
