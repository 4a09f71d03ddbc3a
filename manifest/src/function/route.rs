//! Values of `[[http]]`: who may call, which requests count, and what the answer is made of.

use crate::schema::TextGrammar;
use crate::schema::pick::FromValue;
use crate::schema::tree::{TomlTable, TomlValue};
use crate::words;
pub use fnd_wire::trust::is_secret;
use serde::{Deserialize, Serialize};

words! {
    /// Methods of HTTP that a route can have.
    pub enum Method {
        /// GET.
        Get = "GET",
        /// HEAD.
        Head = "HEAD",
        /// POST.
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// PATCH.
        Patch = "PATCH",
        /// DELETE.
        Delete = "DELETE",
        /// OPTIONS.
        Options = "OPTIONS",
    }

    /// How a caller proves that it knows a secret.
    pub enum Scheme {
        /// `Authorization: Bearer SECRET`.
        Token = "token",
        /// `Authorization: Basic`; the secret's lines are `user:password-hash`.
        Basic = "basic",
        /// `Fnd-Signature: t=UNIX,v1=HEX`.
        Hmac = "hmac",
        /// `X-Hub-Signature-256`, as GitHub and Bitbucket send it.
        Github = "github",
        /// `X-Gitlab-Token`.
        Gitlab = "gitlab",
        /// `X-Gitea-Signature`.
        Gitea = "gitea",
        /// `X-Slack-Signature`.
        Slack = "slack",
        /// `Stripe-Signature`.
        Stripe = "stripe",
        /// `webhook-signature` of Standard Webhooks.
        Standard = "standard",
    }

    /// Whose requests a route's `rate` counts together.
    pub enum Per {
        /// All callers.
        All = "all",
        /// One address.
        Ip = "ip",
    }

    /// What a function gets of a request, and what its answer is.
    pub enum HttpPayload {
        /// The body, and the answer is what the function returns.
        Data = "data",
        /// The request as API Gateway's payload 2.0, and the answer may be an object with `statusCode`.
        Lambda = "lambda",
    }

    /// The source of an answer.
    pub enum Response {
        /// The result of the run.
        Result = "result",
        /// The standard output, which begins with headers (RFC 3875, section 6).
        Cgi = "cgi",
    }
}

/// `SCHEME:SECRET`, or `none`.
pub(crate) const AUTH: TextGrammar = TextGrammar {
    name: "Auth",
    expected: "`none`, or a form and the name of a secret such as `token:hello-token`; the forms are `token` (a \
               Bearer token), `basic`, `hmac`, `github`, `gitlab`, `gitea`, `slack`, `stripe` and `standard`",
    holds: |text| text == "none" || Credential::parse(text).is_some(),
    pattern: || format!("^(none|({}):[A-Za-z0-9_-][A-Za-z0-9._-]*)$", Scheme::WORDS.join("|")),
};

/// The path of a route.
pub(crate) const PATTERN: TextGrammar = TextGrammar {
    name: "Pattern",
    expected: "a path of segments such as `/hello`, `/users/{id}` or `/files/{*rest}`, with different names in braces",
    holds: is_pattern,
    pattern: || "^/".to_owned(),
};

/// The origin of a web page, or `*`.
pub(crate) const ORIGIN: TextGrammar = TextGrammar {
    name: "Origin",
    expected: "`*` or an origin such as `https://example.com`",
    holds: |text| text == "*" || is_origin(text),
    pattern: || "^(\\*|[a-z+.-]+://.+)$".to_owned(),
};

/// A place in a request.
pub(crate) const PLACE: TextGrammar = TextGrammar {
    name: "Place",
    expected: "`header.NAME`, `query.NAME`, `body.NAME` (`body.user.name` looks into objects) or `ip`",
    holds: |text| RequestPlace::parse(text).is_some(),
    pattern: || "^(ip|(header|query|body)\\..+)$".to_owned(),
};

impl HttpPayload {
    /// Returns the payload of a route from an fnd that did not have the key.
    pub(crate) const fn before() -> Self {
        Self::Data
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
pub(crate) fn is_data(payload: &HttpPayload) -> bool {
    *payload == HttpPayload::Data
}

impl Scheme {
    /// Says whether the credential covers the body, so that the body must be read to check it.
    #[must_use]
    pub const fn signs(self) -> bool {
        match self {
            Self::Token | Self::Basic | Self::Gitlab => false,
            Self::Hmac | Self::Github | Self::Gitea | Self::Slack | Self::Stripe | Self::Standard => true,
        }
    }
}

/// A credential that a route accepts: `token:hello-token`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Credential {
    /// How the caller proves it.
    pub scheme: Scheme,
    /// Name of the secret.
    pub secret: String,
}

impl Credential {
    /// Parses `SCHEME:SECRET`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, secret) = text.split_once(':')?;
        let secret = Some(secret).filter(|secret| is_secret(secret))?.to_owned();
        Some(Self {
            scheme: Scheme::parse(scheme)?,
            secret,
        })
    }
}

impl TryFrom<String> for Credential {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or(text)
    }
}

impl From<Credential> for String {
    fn from(credential: Credential) -> Self {
        format!("{}:{}", credential.scheme.as_str(), credential.secret)
    }
}

/// Says whether a text can be the path of a route: segments that are fixed, `{name}`, or at the end `{*name}`.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    let mut names = Vec::new();
    let mut segments = text.strip_prefix('/').unwrap_or("/").split('/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let is_last = segments.peek().is_none();
        let fine = match name {
            // Only the last segment may be empty, because `/hello/` is another path than `/hello`.
            None => is_literal(segment) && (is_last || !segment.is_empty()),
            Some(name) => {
                let bare = if is_last {
                    name.strip_prefix('*').unwrap_or(name)
                } else {
                    name
                };
                let is_new = !names.contains(&bare);
                names.push(bare);
                is_new && is_parameter(bare)
            }
        };
        if !fine {
            return false;
        }
    }
    text.starts_with('/') && text.len() <= 1024
}

/// Says whether a segment is text that a path can have; `.` and `..` are resolved by clients.
fn is_literal(segment: &str) -> bool {
    let fine = |c: char| !c.is_control() && !" \"#%<>?[\\]^`{|}".contains(c);
    segment != "." && segment != ".." && segment.chars().all(fine)
}

/// Says whether a text can be the name of a parameter, which is also the end of a variable's name.
fn is_parameter(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Says whether a text is the origin of a web page as browsers send it: scheme, host, and a port that is not the
/// scheme's.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    // Browsers send an origin in lower case, and a request's origin is compared with this text byte by byte.
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:[]".contains(&b);
    // Browsers leave out the port of the scheme, so an origin with this port would never be sent.
    let is_default = match scheme {
        "http" => host.ends_with(":80"),
        "https" => host.ends_with(":443"),
        _ => false,
    };
    !scheme.is_empty()
        && !host.is_empty()
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b"+-.".contains(&b))
        && host.bytes().all(fine)
        && !is_default
}

/// The credentials of which a caller needs one. Empty is `none`: every caller is admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credentials(pub Vec<Credential>);

/// Absent is the empty list; a manifest without the key is refused.
impl FromValue for Credentials {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        let texts = value.map(|value| value.texts()).unwrap_or_default();
        // The schema has checked the texts: only `none` is no credential, and an empty list means it.
        Some(Self(texts.iter().filter_map(|text| Credential::parse(text)).collect()))
    }
}

/// A place in a request: `header.x-github-event`, `query.dry`, `body.ref`, `ip`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RequestPlace {
    /// A header; its name is in lower case.
    Header(String),
    /// A parameter of the query.
    Query(String),
    /// A value in a JSON or form body, by the names of the objects on the way to it, and the numbers of items of lists.
    Body(Vec<String>),
    /// The caller's address.
    Ip,
}

impl RequestPlace {
    /// Returns the place that a text of the manifest names; nothing if the text has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "ip" {
            return Some(Self::Ip);
        }
        let (kind, name) = text.split_once('.')?;
        // The name of a header is a token (RFC 9110, section 5.6.2).
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        match kind {
            // Upper and lower case make no difference in the name of a header (RFC 9110, section 5.1).
            "header" if !name.is_empty() && name.bytes().all(is_token) => Some(Self::Header(name.to_ascii_lowercase())),
            "query" if !name.is_empty() => Some(Self::Query(name.to_owned())),
            "body" => {
                let path: Vec<String> = name.split('.').flat_map(parts).map(str::to_owned).collect();
                path.iter().all(|part| !part.is_empty()).then_some(Self::Body(path))
            }
            _ => None,
        }
    }
}

/// Returns the parts of a name: `items[0]` is the first of the items, as `items.0` is.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let index = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match index.filter(|(name, index)| !name.is_empty() && is_number(index)) {
        Some((name, index)) => [Some(name), Some(index)],
        None => [Some(name), None],
    }
    .into_iter()
    .flatten()
}

impl TryFrom<String> for RequestPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or(text)
    }
}

impl From<RequestPlace> for String {
    fn from(place: RequestPlace) -> Self {
        match place {
            RequestPlace::Header(name) => format!("header.{name}"),
            RequestPlace::Query(name) => format!("query.{name}"),
            RequestPlace::Body(path) => format!("body.{}", path.join(".")),
            RequestPlace::Ip => "ip".to_owned(),
        }
    }
}

/// A key: the schema has checked its form.
impl FromValue for RequestPlace {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        Self::parse(&value?.text())
    }
}

/// A condition of `when`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The place whose value is tested.
    pub place: RequestPlace,
    /// The value must be one of these; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub is: Vec<String>,
    /// The value must be none of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<String>,
    /// The value must match this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

/// Absent is no condition.
impl FromValue for Vec<Condition> {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        let table = value.map_or_else(|| Some(TomlTable::new()), TomlValue::into_table)?;
        let conditions = table.into_iter().map(|(place, node)| {
            let mut condition = Condition {
                place: RequestPlace::parse(&place)?,
                is: Vec::new(),
                not: Vec::new(),
                matches: None,
            };
            match node.value {
                TomlValue::Table(mut test) => {
                    condition.not = test.remove("not").map(|node| node.value.texts()).unwrap_or_default();
                    condition.matches = test.remove("matches").map(|node| node.value.text());
                }
                value => condition.is = value.texts(),
            }
            Some(condition)
        });
        conditions.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_segments_and_parameters() {
        for text in [
            "/",
            "/hello",
            "/hello/",
            "/users/{id}",
            "/users/{id}/posts/{post}",
            "/files/{*rest}",
            "/ä/b.c",
        ] {
            assert!(is_pattern(text), "{text}");
        }
        for text in [
            "",
            "hello",
            "/a//b",
            "/../b",
            "/a/.",
            "/{}",
            "/{*}",
            "/{1a}",
            "/{a}/{a}",
            "/{*rest}/x",
            "/x{id}",
            "/{id}.json",
            "/a b",
            "/a?b",
            "/a%20b",
            "/{a b}",
            "/{a",
        ] {
            assert!(!is_pattern(text), "{text}");
        }
    }

    #[test]
    fn an_origin_is_what_browsers_send() {
        for text in [
            "https://example.com",
            "http://localhost:5173",
            "http://[::1]:8080",
            "chrome-extension://abc",
        ] {
            assert!(is_origin(text), "{text}");
        }
        for text in [
            "example.com",
            "https://",
            "https://example.com/",
            "https://Example.com",
            "https://example.com:443",
            "null",
        ] {
            assert!(!is_origin(text), "{text}");
        }
    }

    #[test]
    fn places_and_credentials_are_written_as_they_are_read() {
        for text in ["header.x-github-event", "query.dry", "body.user.name", "ip"] {
            assert_eq!(String::from(RequestPlace::parse(text).unwrap()), text);
        }
        assert_eq!(RequestPlace::parse("header.X-A"), RequestPlace::parse("header.x-a"));
        for text in [
            "",
            "header.",
            "header.a b",
            "body.",
            "body.a..b",
            "cookie.a",
            "IP",
            "query",
        ] {
            assert_eq!(RequestPlace::parse(text), None, "{text}");
        }
        for text in ["token:hello-token", "standard:a.b_c-D"] {
            assert_eq!(String::from(Credential::parse(text).unwrap()), text);
        }
        for text in [
            "none",
            "token:",
            "token:../x",
            "token:.x",
            "token:a/b",
            "github",
            "Token:a",
            "token:a b",
        ] {
            assert_eq!(Credential::parse(text), None, "{text}");
        }
    }
}
