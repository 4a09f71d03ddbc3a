//! Values of `sandbox.network`.

use crate::schema::TextGrammar;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use fnd_wire::sandbox as wire;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The network that a function can use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenNetwork", into = "WrittenNetwork")]
pub enum Network {
    /// The machine's.
    #[default]
    Host,
    /// A network of its own with nothing but a loopback interface.
    Loopback,
    /// No sockets but local ones.
    None,
    /// The machine's, but only TCP connections to these ports.
    Connect(BTreeSet<u16>),
}

/// A network as a manifest writes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenNetwork {
    Word(String),
    Ports(Vec<String>),
}

/// `connect:` and a port.
pub(crate) const CONNECT: TextGrammar = TextGrammar {
    name: "Connect",
    expected: "`connect:` and a port from 1 to 65535, such as `connect:443`",
    holds: |text| port(text).is_some(),
    pattern: || "^connect:[1-9][0-9]{0,4}$".to_owned(),
};

/// Returns the port of `connect:PORT`; nothing for another text.
#[must_use]
pub fn port(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("connect:")?;
    let port = digits.parse().ok().filter(|port: &u16| *port > 0)?;
    (port.to_string() == digits).then_some(port) // neither `+1` nor `01`
}

impl Network {
    /// The networks that are a word.
    pub const WORDS: &'static [&'static str] = &["host", "none", "loopback"];

    /// Says whether the network gives a function everything that another one gives.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host, _) | (_, Self::None) => true,
            (Self::Connect(ports), Self::Connect(others)) => others.is_subset(ports),
            // A network of its own leads to no other program, so it opens nothing that `connect` closes.
            (Self::Connect(_) | Self::Loopback, Self::Loopback) => true,
            _ => false,
        }
    }
}

impl TryFrom<WrittenNetwork> for Network {
    type Error = &'static str;

    fn try_from(written: WrittenNetwork) -> Result<Self, Self::Error> {
        let found = match written {
            WrittenNetwork::Word(word) => match word.as_str() {
                "host" => Some(Self::Host),
                "none" => Some(Self::None),
                "loopback" => Some(Self::Loopback),
                _ => None,
            },
            WrittenNetwork::Ports(ports) => ports
                .iter()
                .map(|text| port(text))
                .collect::<Option<_>>()
                .map(Self::Connect),
        };
        found.ok_or("expected a network")
    }
}

impl From<Network> for WrittenNetwork {
    fn from(network: Network) -> Self {
        let word = match network {
            Network::Host => "host",
            Network::Loopback => "loopback",
            Network::None => "none",
            Network::Connect(ports) => {
                return Self::Ports(ports.iter().map(|port| format!("connect:{port}")).collect());
            }
        };
        Self::Word(word.to_owned())
    }
}

impl From<&Network> for wire::Network {
    fn from(network: &Network) -> Self {
        match network {
            Network::Host => Self::Host,
            Network::Loopback => Self::Loopback,
            Network::None => Self::None,
            Network::Connect(ports) => Self::Connect(ports.iter().copied().collect()),
        }
    }
}

impl FromValue for Network {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        let written = match value? {
            list @ TomlValue::List(_) => WrittenNetwork::Ports(list.texts()),
            value => WrittenNetwork::Word(value.text()),
        };
        Self::try_from(written).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_written_as_it_is_read() {
        for text in [
            "\"host\"",
            "\"none\"",
            "\"loopback\"",
            "[\"connect:443\",\"connect:5432\"]",
        ] {
            let network: Network = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&network).unwrap(), text);
        }
        for text in ["\"full\"", "[\"443\"]", "[\"connect:0\"]"] {
            assert!(serde_json::from_str::<Network>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_is_a_number_from_1_to_65535() {
        assert_eq!([port("connect:1"), port("connect:65535")], [Some(1), Some(65_535)]);
        for text in [
            "",
            "443",
            "connect:",
            "connect:0",
            "connect:65536",
            "connect:+1",
            "connect:01",
            "listen:1",
        ] {
            assert_eq!(port(text), None, "{text}");
        }
    }

    #[test]
    fn networks_contain_the_narrower_ones() {
        let connect = |ports: &[u16]| Network::Connect(ports.iter().copied().collect());
        let chain = [
            Network::None,
            Network::Loopback,
            connect(&[443]),
            connect(&[443, 80]),
            Network::Host,
        ];
        for (number, wider) in chain.iter().enumerate() {
            for (other, narrower) in chain.iter().enumerate() {
                assert_eq!(wider.contains(narrower), other <= number, "{wider:?} {narrower:?}");
            }
        }
        assert!(!connect(&[80]).contains(&connect(&[443])));
    }
}
