//! The caller behind a proxy: `X-Forwarded-For`, and `Forwarded` of RFC 7239.
//!
//! Only a proxy that the configuration trusts is believed. A proxy sets one of the two headers and may pass on the other
//! one as a client wrote it. So if both are there and differ, neither counts.

use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// The proxies that are trusted.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    networks: Vec<IpNet>,
    /// Whether callers over Unix sockets are trusted.
    unix: bool,
}

impl Trusted {
    /// Reads `[http] trusted_proxies`: addresses, networks and `unix`. Other text, which the judge refuses, trusts
    /// nobody.
    #[must_use]
    pub fn new(written: &[String]) -> Self {
        let network = |text: &String| {
            text.parse::<IpNet>()
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
                .ok()
        };
        Self {
            networks: written.iter().filter_map(network).collect(),
            unix: written.iter().any(|text| text == "unix"),
        }
    }

    /// Says whether a peer is a trusted proxy; absent: it came over a Unix socket.
    #[must_use]
    pub fn is_trusted(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(address) => self
                .networks
                .iter()
                // A socket for both versions shows an IPv4 proxy as `::ffff:192.0.2.1`.
                .any(|network| network.contains(&address.to_canonical())),
            None => self.unix,
        }
    }

    /// Returns the address of the caller. `forwarded_for` and `forwarded` are the values of the two headers, in order.
    #[must_use]
    pub fn caller(&self, peer: Option<IpAddr>, forwarded_for: &[String], forwarded: &[String]) -> Option<IpAddr> {
        if !self.is_trusted(peer) {
            return peer;
        }
        let named = forwarded_for
            .iter()
            .flat_map(|value| value.split(','))
            .map(node)
            .collect();
        let elements = forwarded.iter().flat_map(|value| value.split(','));
        let standard = elements
            .map(|element| parameter(element, "for").and_then(|value| node(&value)))
            .collect();
        let (named, standard) = (self.last_stranger(named), self.last_stranger(standard));
        let caller = match (forwarded_for.is_empty(), forwarded.is_empty()) {
            (_, true) => named,
            (true, false) => standard,
            (false, false) => named.filter(|caller| standard == Some(*caller)),
        };
        caller.or(peer)
    }

    /// Returns the last address that is no trusted proxy: what stands before it, the caller may have written. Nothing if
    /// that one is no address.
    fn last_stranger(&self, chain: Vec<Option<IpAddr>>) -> Option<IpAddr> {
        let first = chain.first().copied().flatten();
        let stranger = chain
            .into_iter()
            .rev()
            .find(|address| !address.is_some_and(|known| self.is_trusted(Some(known))));
        // If all of them are proxies, the first one asked on its own behalf.
        stranger.unwrap_or(first)
    }
}

/// Returns a parameter of an element of `Forwarded`.
fn parameter(element: &str, name: &str) -> Option<String> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(found, _)| found.trim().eq_ignore_ascii_case(name));
    let (_, value) = found.next()?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// Returns the address of a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let address = bare.parse().ok();
    let address = address.or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(peer: &str, forwarded_for: &[&str], forwarded: &[&str]) -> String {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let trusted = Trusted::new(&texts(&["127.0.0.1", "10.0.0.0/8", "::1", "unix", "nonsense"]));
        let caller = trusted.caller(peer.parse().ok(), &texts(forwarded_for), &texts(forwarded));
        caller.map_or_else(|| "-".to_owned(), |caller| caller.to_string())
    }

    #[test]
    fn only_a_trusted_proxy_names_the_caller() {
        assert_eq!(caller("192.0.2.9", &["198.51.100.1"], &[]), "192.0.2.9");
        assert_eq!(caller("127.0.0.1", &["198.51.100.1"], &[]), "198.51.100.1");
        assert_eq!(caller("unix", &["198.51.100.1"], &[]), "198.51.100.1");
        assert_eq!(caller("unix", &[], &[]), "-");
        assert_eq!(caller("::ffff:127.0.0.1", &["198.51.100.1"], &[]), "198.51.100.1");
    }

    #[test]
    fn what_a_caller_writes_itself_does_not_count() {
        assert_eq!(caller("127.0.0.1", &["1.2.3.4, 198.51.100.1"], &[]), "198.51.100.1");
        assert_eq!(
            caller("127.0.0.1", &["1.2.3.4", "198.51.100.1, 10.1.2.3"], &[]),
            "198.51.100.1"
        );
        assert_eq!(caller("127.0.0.1", &["10.0.0.7, 10.1.2.3"], &[]), "10.0.0.7");
        assert_eq!(caller("127.0.0.1", &["1.2.3.4, unknown"], &[]), "127.0.0.1");
        assert_eq!(
            caller("127.0.0.1", &["1.2.3.4"], &["for=5.6.7.8"]),
            "127.0.0.1",
            "they differ"
        );
        assert_eq!(caller("127.0.0.1", &["1.2.3.4"], &["for=1.2.3.4"]), "1.2.3.4");
    }

    #[test]
    fn both_headers_are_read_in_all_their_forms() {
        for (value, expected) in [
            ("for=192.0.2.43", "192.0.2.43"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
            ("for=_hidden", "127.0.0.1"),
            ("proto=https", "127.0.0.1"),
            ("", "127.0.0.1"),
        ] {
            assert_eq!(caller("127.0.0.1", &[], &[value]), expected, "{value}");
        }
        for (value, expected) in [
            ("192.0.2.43:1234", "192.0.2.43"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]:80", "2001:db8::7"),
        ] {
            assert_eq!(caller("127.0.0.1", &[value], &[]), expected, "{value}");
        }
    }
}
