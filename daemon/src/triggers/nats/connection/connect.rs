//! Connects to the servers of `[events.nats]`. The first connection is tried once for each call; after that, the client
//! connects again by itself and goes on with its subscriptions.

use crate::triggers::nats::request::NatsConnect;
use async_nats::{Client, ConnectOptions, Event};
use std::io;
use std::time::Duration;

/// How long a server may take for a connection: TCP, TLS, and its first answer.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often the server is asked for a sign of life where it sends none by itself. A connection is given up when two of
/// them are missing.
const PING: Duration = Duration::from_secs(5);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Most commands that wait for the connection. They wait only while a stalled connection is not given up yet: without
/// one, nothing is sent. When it is full, the thread waits a moment and takes the request as failed.
const COMMANDS_MAX: usize = 4096;
/// Most messages that wait for the thread, of each subscription. Only as many come as were asked for, besides requests
/// of others. The client drops what exceeds it; the server then delivers a message of a stream again after `ack_wait`.
const MESSAGES_MAX: usize = 4096;

/// A change of the connection that the client reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectionEvent {
    /// It is connected (again).
    Up,
    /// It has lost the connection, and tries to connect again.
    Down,
    /// A try has failed, and why.
    TryFailed(String),
    /// The server has refused something.
    ServerError(String),
}

/// Prepares a connection, whose client says its changes by `send`. The future tries it once.
///
/// # Errors
/// Why the credentials cannot be used, for people.
pub(super) fn connect<S: Fn(ConnectionEvent) + Clone + Send + Sync + 'static>(
    settings: &NatsConnect,
    send: S,
) -> Result<impl Future<Output = Result<Client, String>> + use<S>, String> {
    let send_failure = send.clone();
    let mut options = ConnectOptions::new()
        .name(format!("fnd on {}", settings.node))
        .connection_timeout(CONNECT_MAX)
        .ping_interval(PING)
        .client_capacity(COMMANDS_MAX)
        .subscription_capacity(MESSAGES_MAX)
        .max_reconnects(None::<usize>)
        .reconnect_delay_callback(pause)
        // The callbacks hand on what they get and wait for nothing: the client waits for them.
        .event_callback(move |event| {
            if let Some(event) = said(event) {
                send(event);
            }
            std::future::ready(())
        })
        .reconnect_to_server_callback(move |servers, _| {
            let failed = servers.iter().find_map(|server| {
                let error = server.last_error.as_ref()?;
                Some(format!("{server}: {error}"))
            });
            if let Some(why) = failed {
                send_failure(ConnectionEvent::TryFailed(why));
            }
            // The client chooses the server itself.
            std::future::ready(None)
        });
    if let Some(credentials) = &settings.credentials {
        options = with_credentials(options, credentials)
            .map_err(|error| format!("the secret of `events.nats.credentials` cannot be used: {error}"))?;
    }
    // The client reads these files at each connection, so that new certificates need no reload.
    if let Some(ca) = &settings.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = &settings.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    if settings.tls_first {
        options = options.tls_first();
    } else {
        options = options.require_tls(needs_tls(settings));
    }
    let servers = settings.servers.clone();
    Ok(async move { options.connect(servers).await.map_err(|error| error.to_string()) })
}

/// Says whether a connection without TLS is refused. A cluster names its other servers without a scheme, so one address
/// of `tls://` says nothing about the others: all settings together decide.
fn needs_tls(settings: &NatsConnect) -> bool {
    let all_by_tls = settings.servers.iter().all(|server| server.starts_with("tls://"));
    all_by_tls || settings.ca.is_some() || settings.certificate.is_some()
}

/// Returns the pause before a try. Many nodes lose a server at the same moment, so a part of it is random.
fn pause(tries: usize) -> Duration {
    if tries <= 1 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(tries.min(10)).unwrap_or(10);
    let longest = Duration::from_millis(50).saturating_mul(1 << doublings).min(PAUSE_MAX);
    longest.mul_f32(0.5 + fastrand::f32() / 2.0)
}

fn said(event: Event) -> Option<ConnectionEvent> {
    match event {
        Event::Connected => Some(ConnectionEvent::Up),
        Event::Disconnected | Event::Closed => Some(ConnectionEvent::Down),
        Event::ServerError(error) => Some(ConnectionEvent::ServerError(error.to_string())),
        Event::ClientError(error) => Some(ConnectionEvent::TryFailed(error.to_string())),
        Event::SlowConsumer(_) => Some(ConnectionEvent::ServerError(
            "messages came faster than fnd has taken them; the server delivers them again".to_owned(),
        )),
        // The server says that it will stop: the client connects to another one when it does.
        Event::LameDuckMode | Event::Draining => None,
    }
}

/// The forms that the secret can have.
#[derive(Debug, PartialEq, Eq)]
enum CredentialForm<'a> {
    /// The content of a file `.creds`.
    Creds,
    /// The seed of an nkey.
    Seed,
    User(&'a str, &'a str),
    Token,
}

/// Returns the form of a secret, without the blanks around it.
fn form(secret: &str) -> CredentialForm<'_> {
    /// Length of the seed of a user: `SU`, 32 bytes and a checksum, in base 32.
    const SEED: usize = 58;
    let is_base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    if secret.contains("-----BEGIN NATS USER JWT-----") {
        CredentialForm::Creds
    } else if secret.len() == SEED && secret.starts_with("SU") && secret.bytes().all(is_base32) {
        CredentialForm::Seed
    } else if let Some((user, password)) = secret.split_once(':') {
        CredentialForm::User(user, password)
    } else {
        CredentialForm::Token
    }
}

fn with_credentials(options: ConnectOptions, secret: &str) -> io::Result<ConnectOptions> {
    let text = secret.trim();
    Ok(match form(text) {
        // The client finds the seed only if its last line has an end.
        CredentialForm::Creds => options.credentials(secret)?,
        CredentialForm::Seed => options.nkey(text.to_owned()),
        CredentialForm::User(user, password) => options.user_and_password(user.to_owned(), password.to_owned()),
        CredentialForm::Token => options.token(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triggers::nats::tests::connect_to;

    #[test]
    fn the_form_of_a_secret_is_told_by_its_text() {
        let seed = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";
        assert_eq!(form(seed), CredentialForm::Seed);
        assert_eq!(form(&seed.to_lowercase()), CredentialForm::Token);
        assert_eq!(form(&seed[..57]), CredentialForm::Token);
        assert_eq!(form("ada:s3c:ret"), CredentialForm::User("ada", "s3c:ret"));
        assert_eq!(form("s3cret"), CredentialForm::Token);
        assert_eq!(
            form("-----BEGIN NATS USER JWT-----\neyJ0:\n------END NATS USER JWT------\n"),
            CredentialForm::Creds
        );
    }

    /// As other programs than `nsc` write one.
    #[test]
    fn a_file_of_credentials_may_end_with_its_seed() {
        let creds = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n\
             SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY\n------END USER NKEY SEED------\n";
        assert!(with_credentials(ConnectOptions::new(), creds).is_ok());
    }

    #[test]
    fn tries_have_pauses_that_grow_up_to_two_seconds() {
        assert_eq!((pause(0), pause(1)), (Duration::ZERO, Duration::ZERO));
        for tries in 2..50 {
            assert!(
                pause(tries) >= Duration::from_millis(100) && pause(tries) <= PAUSE_MAX,
                "{tries}"
            );
        }
    }

    #[test]
    fn a_connection_without_tls_is_refused_where_the_settings_speak_of_tls() {
        let needs = |servers: &[&str], ca: bool| {
            needs_tls(&NatsConnect {
                ca: ca.then(|| "/ca.pem".into()),
                ..connect_to(servers)
            })
        };
        assert!(needs(&["tls://a", "tls://b"], false) && needs(&["nats://a"], true));
        assert!(!needs(&["nats://a"], false) && !needs(&["tls://a", "b"], false));
    }
}
