//! Which requests are answered, before anything else is done with them, and the headers of every answer. Pure.
//!
//! A browser shows pages of many sites, and each of them can send requests to 127.0.0.1. The host keeps out a site whose name
//! was pointed at 127.0.0.1 (DNS rebinding); origin and `Sec-Fetch-Site` keep out forms of other sites.

use crate::http::Method;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::request::Parts;

/// The names by which a browser reaches the page, directly or through `ssh -L`; the port may be any.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Method,
    CrossSite,
    ContentType,
    Target,
}

impl Refusal {
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Host => 421,
            Self::Method => 405,
            Self::CrossSite => 403,
            Self::ContentType => 415,
            Self::Target => 400,
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => "This address is not the page's: open it as http://127.0.0.1:PORT, or localhost.",
            Self::Method => "The page answers GET and POST only.",
            Self::CrossSite => "The form did not come from this page: actions of other sites are refused.",
            Self::ContentType => "A form is sent as application/x-www-form-urlencoded.",
            Self::Target => "The address is not a path.",
        }
    }
}

/// Returns the method of a request whose sender may go on to sign in or to show a session.
///
/// # Errors
/// The request has another host, method, or source.
pub(crate) fn admit(head: &Parts) -> Result<Method, Refusal> {
    let host = only(&head.headers, "host")
        .filter(|host| is_own(host))
        .ok_or(Refusal::Host)?;
    // A proxy's form, `GET http://host/path`, has a second host.
    let target = &head.uri;
    if target.authority().is_some() || !target.path().starts_with('/') {
        return Err(Refusal::Target);
    }
    let method = match head.method {
        hyper::Method::GET | hyper::Method::HEAD => Method::Get,
        hyper::Method::POST => Method::Post,
        _ => return Err(Refusal::Method),
    };
    if method == Method::Post {
        admit_form(&head.headers, host)?;
    }
    Ok(method)
}

fn admit_form(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let site = only(headers, "sec-fetch-site");
    let origin = only(headers, "origin").and_then(|origin| origin.strip_prefix("http://"));
    if site != Some("same-origin") || !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
        return Err(Refusal::CrossSite);
    }
    let media = only(headers, "content-type").and_then(|media| media.split(';').next());
    if media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")) {
        Ok(())
    } else {
        Err(Refusal::ContentType)
    }
}

/// Returns the value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_own(host: &str) -> bool {
    HOSTS.iter().any(|own| match host.get(..own.len()) {
        Some(name) if name.eq_ignore_ascii_case(own) => is_port(&host[own.len()..]),
        _ => false,
    })
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Returns whether a form may lead to this address after it: a path of the page, and no address of another host
/// (`//host`, which browsers also see in `/\host`).
pub(crate) fn is_local(address: &str) -> bool {
    let is_plain = |character: char| !character.is_control() && character != '\\';
    address.starts_with('/') && !address.starts_with("//") && address.chars().all(is_plain)
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the headers that every answer has. An answer that says how long it may be stored keeps that.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(CACHE_CONTROL).or_insert(no_store);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    const HOST_LINE: (&str, &str) = ("host", "127.0.0.1:8080");
    const FORM: [(&str, &str); 4] = [
        HOST_LINE,
        ("origin", "http://127.0.0.1:8080"),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "application/x-www-form-urlencoded; charset=UTF-8"),
    ];

    fn check(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Method, Refusal> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        admit(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn another_host_is_dns_rebinding() {
        for own in ["127.0.0.1", "127.0.0.1:1", "localhost:65535", "LOCALHOST", "[::1]:8080"] {
            assert_eq!(check("GET", "/", &[("host", own)]), Ok(Method::Get), "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8080",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "127.0.0.1:8080:1",
            "a@127.0.0.1",
            "",
        ] {
            assert_eq!(check("GET", "/", &[("host", other)]), Err(Refusal::Host), "{other}");
        }
        assert_eq!(check("GET", "/", &[]), Err(Refusal::Host));
        assert_eq!(check("GET", "/", &[HOST_LINE, HOST_LINE]), Err(Refusal::Host));
        assert_eq!(check("GET", "http://localhost/", &[HOST_LINE]), Err(Refusal::Target));
        assert_eq!(check("OPTIONS", "*", &[HOST_LINE]), Err(Refusal::Target));
        assert_eq!(check("PUT", "/", &[HOST_LINE]), Err(Refusal::Method));
        assert_eq!(check("HEAD", "/", &[HOST_LINE]), Ok(Method::Get));
    }

    #[test]
    fn a_form_of_another_site_is_refused() {
        assert_eq!(check("POST", "/", &FORM), Ok(Method::Post));
        for (place, value, expected) in [
            (1, "http://evil.example", Refusal::CrossSite),
            (1, "null", Refusal::CrossSite),
            (1, "https://127.0.0.1:8080", Refusal::CrossSite),
            // Another page on this machine.
            (1, "http://127.0.0.1:8081", Refusal::CrossSite),
            (1, "http://localhost:8080", Refusal::CrossSite),
            (2, "same-site", Refusal::CrossSite),
            (2, "none", Refusal::CrossSite),
            (3, "text/plain", Refusal::ContentType),
        ] {
            let mut headers = FORM;
            headers[place].1 = value;
            assert_eq!(check("POST", "/", &headers), Err(expected), "{value}");
        }
        for left_out in 1..FORM.len() {
            let mut headers = FORM.to_vec();
            headers.remove(left_out);
            assert!(check("POST", "/", &headers).is_err(), "{left_out}");
        }
    }

    #[test]
    fn a_form_leads_to_no_other_host() {
        for (address, expected) in [
            ("/", true),
            ("/runs/1?a=b", true),
            ("", false),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("/\t/evil.example", false),
            ("http://evil.example", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(is_local(address), expected, "{address}");
        }
    }

    #[test]
    fn no_answer_can_be_framed_stored_or_sniffed() {
        let mut headers = HeaderMap::new();
        protect(&mut headers);
        assert_eq!(
            headers[CONTENT_SECURITY_POLICY],
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        assert_eq!(headers[X_FRAME_OPTIONS], "DENY");
        assert_eq!(headers[REFERRER_POLICY], "same-origin");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[CACHE_CONTROL], "no-store");
    }
}
