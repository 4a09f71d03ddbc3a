//! `[events.nats]` with its secret: where to connect, and who this node is.

use super::node::NodeIdentity;
use super::request::{ClaimBucket, NatsConnect};
use crate::triggers::secrets::{Secret, named};
use fnd_core::triggers::nats::event::EventStream;
use fnd_core::triggers::nats::server::objects::bucket_keeps;
use fnd_manifest::function::nats::is_node;
use fnd_manifest::settings::{EventSettings, NatsSettings};
use fnd_wire::frame::SecretAsked;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The name of a node whose host name can be none.
const NAMELESS: &str = "fnd";

/// Returns the requests for the secret of `[events.nats]`.
pub(crate) fn secret_of(nats: Option<&NatsSettings>) -> Option<SecretAsked> {
    Some(named(nats?.credentials.as_ref()?))
}

/// Returns the stream through which the events of all nodes go; nothing: those of this node stay here.
pub(crate) fn event_stream(events: &EventSettings) -> Option<EventStream> {
    let name = events.nats.as_ref()?.stream.as_deref()?;
    Some(EventStream {
        name: name.into(),
        // Not longer than the claims: else an event could run a function again, whose end nobody remembers.
        keeps: bucket_keeps(events.remember),
    })
}

/// Where this node connects to, and who it is.
pub(crate) struct NatsNode {
    pub(super) identity: NodeIdentity,
    /// Or why it cannot connect now.
    pub(super) connect: Result<NatsConnect, String>,
}

impl NatsNode {
    /// Returns the node of a configuration. `secret` is the value of `credentials`; absent: none is named, or it is not known yet.
    pub(crate) fn of(events: &EventSettings, (host, instance): (&str, u64), secret: Option<&Secret>) -> Option<Self> {
        let nats = events.nats.as_ref()?;
        let credentials = match (&nats.credentials, secret) {
            (None, _) => Ok(None),
            (Some(name), Some(secret)) => {
                let text = credentials(secret).ok_or_else(|| format!("the secret `{name}` is no text"));
                text.map(Some)
            }
            (Some(name), None) => Err(format!("the secret `{name}` (`credentials`) is not known")),
        };
        let host = Some(host).filter(|host| is_node(host)).unwrap_or(NAMELESS);
        let name = nats.node.as_deref().unwrap_or(host).to_owned();
        let bucket = ClaimBucket {
            name: nats.claims.as_str().into(),
            replicas: nats.replicas,
            keeps: bucket_keeps(events.remember),
        };
        let certificate = nats.certificate.as_ref().zip(nats.key.as_ref());
        Some(Self {
            identity: NodeIdentity {
                name: name.clone(),
                instance,
                bucket: Arc::clone(&bucket.name),
                keeps: bucket.keeps,
            },
            connect: credentials.map(|credentials| NatsConnect {
                servers: nats.servers.0.clone(),
                credentials,
                ca: nats.ca.as_ref().map(Into::into),
                certificate: certificate.map(|(certificate, key)| (certificate.into(), key.into())),
                tls_first: nats.tls_first,
                node: name,
                bucket,
                events: event_stream(events),
            }),
        })
    }
}

/// Returns the text of a secret: the whole file of credentials, else its first line.
fn credentials(secret: &Secret) -> Option<Zeroizing<String>> {
    // It never grows, since a copy of it would stay in freed memory.
    let length: usize = secret.lines.iter().map(|line| line.len() + 1).sum();
    let mut text = Zeroizing::new(String::with_capacity(length));
    for line in &secret.lines {
        text.push_str(str::from_utf8(line).ok()?);
        text.push('\n');
    }
    if text.contains("-----BEGIN ") {
        return Some(text);
    }
    let first = secret.lines.first()?;
    Some(Zeroizing::new(str::from_utf8(first).ok()?.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fnd_wire::frame::NAMED;
    use std::time::Duration;

    fn secret(lines: &[&str]) -> Secret {
        Secret {
            lines: lines
                .iter()
                .map(|line| Zeroizing::new(line.as_bytes().to_vec()))
                .collect(),
        }
    }

    pub(crate) fn settings(node: &str) -> EventSettings {
        let nats: NatsSettings = serde_json::from_value(serde_json::json!({
            "servers": ["nats://n1"],
            "credentials": "nats-creds",
            "tls_first": false,
            "node": node,
            "claims": "fnd-claims",
            "replicas": 1,
        }))
        .unwrap();
        EventSettings {
            remember: Duration::from_hours(1),
            nats: Some(nats),
        }
    }

    pub(crate) fn node(name: &str) -> Option<NatsNode> {
        NatsNode::of(&settings(name), ("host", 7), Some(&secret(&["token"])))
    }

    #[test]
    fn a_node_is_complete_with_its_secret() {
        let unknown = NatsNode::of(&settings("vm1"), ("host", 7), None).unwrap();
        let why = unknown.connect.err().unwrap();
        assert_eq!(why, "the secret `nats-creds` (`credentials`) is not known");
        let known = node("vm1").unwrap();
        assert_eq!(known.identity.name, "vm1");
        let connect = known.connect.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(connect.bucket.keeps, Duration::from_hours(24));
        assert_eq!(connect.credentials.unwrap().as_str(), "token");
        let asked = secret_of(settings("vm1").nats.as_ref()).unwrap();
        assert_eq!(asked.name, format!("{NAMED}nats-creds"));
    }

    #[test]
    fn a_file_of_credentials_is_one_text_and_other_secrets_are_their_first_line() {
        let creds = secret(&["-----BEGIN NATS USER JWT-----", "eyJ0", "------END NATS USER JWT------"]);
        assert_eq!(credentials(&creds).unwrap().lines().count(), 3);
        assert_eq!(credentials(&secret(&["new", "old"])).unwrap().as_str(), "new");
        assert!(credentials(&secret(&[])).is_none());
    }
}
