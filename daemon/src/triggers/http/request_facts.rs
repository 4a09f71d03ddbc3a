//! The facts of a request that its route depends on.

use crate::http::listen::socket::Peer;
use crate::http::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_core::triggers::route::conditions::RequestValues;
use fnd_core::triggers::route::forwarded::Trusted;
use fnd_core::triggers::route::path;
use fnd_manifest::function::route::Method;
use hyper::Version;
use hyper::header::{CONTENT_TYPE, FORWARDED, HOST, HeaderMap};
use hyper::http::request::Parts;
use std::net::IpAddr;

#[derive(Debug)]
pub(crate) struct RequestFacts {
    /// The host in lower case, without a port; empty if the request names none.
    pub(crate) host: String,
    /// The authority as it came: host and port.
    pub(crate) authority: String,
    /// The path in normal form.
    pub(crate) path: String,
    /// The path as it came.
    pub(crate) raw_path: String,
    /// The part after the `?`.
    pub(crate) query: String,
    /// The method; absent: one that no route can have.
    pub(crate) method: Option<Method>,
    /// The caller's address, behind trusted proxies; absent for a Unix socket.
    pub(crate) caller: Option<IpAddr>,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The version of HTTP.
    pub(crate) protocol: &'static str,
}

impl RequestFacts {
    /// # Errors
    /// [`Code::BadRequest`] if the path or the host cannot be read.
    pub(crate) fn read(parts: &Parts, peer: &Peer, trusted: &Trusted) -> Result<Self, Refusal> {
        let raw_path = parts.uri.path();
        let path = path::normal(raw_path).map_err(|wrong| refuse(Code::BadRequest, wrong.to_string()))?;
        let authority = match parts.headers.get(HOST).map(|host| host.to_str()) {
            None => String::new(),
            Some(Ok(host)) => host.to_owned(),
            Some(Err(_)) => return Err(refuse(Code::BadRequest, "the header `host` is not ASCII")),
        };
        let is_trusted = trusted.is_trusted(peer.address);
        let caller = trusted.caller(
            peer.address,
            &header_values(&parts.headers, "x-forwarded-for"),
            &header_values(&parts.headers, FORWARDED.as_str()),
        );
        let forwarded = header_values(&parts.headers, "x-forwarded-proto")
            .pop()
            .filter(|_| is_trusted);
        // Of a list, the first one is what the caller used.
        let first = forwarded
            .as_deref()
            .map(|list| list.split(',').next().unwrap_or_default().trim());
        let is_secure = first.map_or(peer.is_secure, |scheme| scheme.eq_ignore_ascii_case("https"));
        Ok(Self {
            host: host_of(&authority),
            authority,
            path,
            raw_path: raw_path.to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            method: Method::parse(parts.method.as_str()),
            caller,
            scheme: if is_secure { "https" } else { "http" },
            protocol: match parts.version {
                Version::HTTP_2 => "HTTP/2.0",
                Version::HTTP_10 => "HTTP/1.0",
                _ => "HTTP/1.1",
            },
        })
    }

    /// Calls a function with the facts that conditions look at.
    pub(crate) fn with_facts<T>(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        read: impl FnOnce(&RequestValues<'_>) -> T,
    ) -> T {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        read(&RequestValues {
            header: &|name| header_values(headers, name),
            query: &self.query,
            content_type: content_type.unwrap_or_default(),
            body,
            ip: self.caller,
        })
    }

    /// Returns the caller's address as text; empty for a Unix socket.
    pub(crate) fn remote(&self) -> String {
        self.caller.map(|caller| caller.to_string()).unwrap_or_default()
    }
}

/// Returns all values of a header as text; a value that is not ASCII counts as empty.
fn header_values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| value.to_str().unwrap_or_default().to_owned())
        .collect()
}

/// Returns the host of an authority as routes name it.
fn host_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        // Not the last group of an IPv6 address.
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn a_host_has_no_port_and_no_final_dot() {
        for (authority, host) in [
            ("Api.Example.com:8443", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("", ""),
        ] {
            assert_eq!(host_of(authority), host);
        }
    }
}
