//! Checks the routes of a function: what they exclude, and what only root's files may name.

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::function::Mode;
use crate::function::keys::HttpRoute;
use crate::function::route::{HttpPayload, Per, Response};
use crate::schema::tree::{TomlNode, TomlTable, TomlValue, entries, place};
use std::collections::BTreeMap;

/// The path that answers whether fnd serves.
const HEALTH: &str = "/healthz";

/// Gives the routes of AWS Lambda's programs its payload, where they do not say which one.
pub(super) fn settle(routes: &mut [HttpRoute], own: &TomlTable, subject: &ResolvedSubject<'_>) {
    let says = |node: &TomlNode| node.value.as_table().is_some_and(|table| table.contains_key("payload"));
    let written = entries(own, "http");
    for (number, route) in routes.iter_mut().enumerate() {
        if subject.runtime.is_helped() && !written.get(number).is_some_and(says) {
            route.payload = HttpPayload::Lambda;
        }
    }
}

/// Reports what is wrong with the routes; `own` is the manifest in which they are written.
pub(super) fn check(
    routes: &[HttpRoute],
    own: &TomlTable,
    subject: &ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) {
    let written = entries(own, "http");
    let mut taken = BTreeMap::new();
    for (number, route) in routes.iter().enumerate() {
        let node = written.get(number);
        let mut wrong = |key: &str, code, message: String, help: &str| {
            report.error(place(node, key), code, message, help);
        };
        let impossible = "impossible";
        if subject.mode == Mode::Service {
            let message = "`[[http]]` has no effect on a service, which is kept running and never invoked".to_owned();
            wrong("path", impossible, message, "remove it, or use `mode = \"http\"`");
        }
        if route.path == HEALTH {
            let message = format!("the path `{HEALTH}` is fnd's own: it says whether fnd serves");
            wrong("path", "reserved", message, "use another path");
        }
        let auth = node.and_then(|node| node.value.as_table()?.get("auth"));
        if let Some(TomlValue::List(items)) = auth.map(|node| &node.value)
            // `none` in a list is no credential and so was dropped: then the numbers differ.
            && items.len() != route.auth.0.len().max(1)
        {
            let message = "a list in `auth` has at least one credential, and `none` is not one".to_owned();
            let help = "write `auth = \"none\"` if everybody may call";
            wrong("auth", impossible, message, help);
        }
        if let Some(credential) = route.auth.0.first().filter(|_| !subject.trusted) {
            let secret = &credential.secret;
            let message =
                format!("only functions whose code and manifest belong to root may name a secret (`{secret}`)");
            let help = "let root own the files (`chown root:root`; for an upload, ask root)";
            wrong("auth", "not-trusted", message, help);
        }
        if route.response == Response::Cgi && subject.mode != Mode::Script {
            let mode = subject.mode.as_str();
            let message = format!("`response = \"cgi\"` is for scripts, and this function has the mode `{mode}`");
            wrong("response", impossible, message, "remove it");
        }
        if route.payload == HttpPayload::Lambda && subject.mode != Mode::Handler {
            let mode = subject.mode.as_str();
            let message = format!(
                "`payload = \"lambda\"` is for handlers, whose result is an object with `statusCode`, and this function has the mode `{mode}`"
            );
            wrong("payload", impossible, message, "remove it");
        }
        if route.strip && subject.mode != Mode::Http {
            let message = "`strip` is for programs that serve HTTP themselves (`mode = \"http\"`)".to_owned();
            wrong("strip", impossible, message, "remove it");
        }
        if route.authorization && !route.auth.0.is_empty() {
            let message = "`authorization` is for routes with `auth = \"none\"`: on this one, the header is the credential that fnd checks";
            wrong("authorization", impossible, message.to_owned(), "remove it");
        }
        if let Some(answer) = &route.answer {
            if !route.r#async {
                let message = "`answer` has no effect without `async`: the function gives the answer itself".to_owned();
                wrong("answer", impossible, message, "add `async = true`, or remove `answer`");
            }
            for (name, value) in &answer.headers {
                if !is_header(name, value) {
                    let message = format!("`{}` is no header that an answer can have", name.escape_debug());
                    let help = "a name has letters, digits and `-`, a value is one line; fnd itself sets `content-length`, `connection` \
                                and `fnd-...`";
                    wrong("answer", impossible, message, help);
                }
            }
        }
        if route.per == Per::Ip && route.rate.is_none() {
            let message = "`per` has no effect without `rate`".to_owned();
            wrong("per", impossible, message, "add `rate`, or remove `per`");
        }
        let pattern = shape(&route.path);
        for method in &route.methods {
            let key = (route.host.clone(), pattern.clone(), *method);
            if let Some(other) = taken.insert(key, &route.path) {
                let message = format!("two routes of this function are {} {other}", method.as_str());
                wrong("path", "twice", message, "remove one of the two");
            }
        }
    }
}

/// Says whether an answer can have a header (RFC 9110, section 5), and fnd does not set it itself.
fn is_header(name: &str, value: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let lower = name.to_ascii_lowercase();
    !name.is_empty()
        && name.bytes().all(is_token)
        // The end of a line in a value would begin another header.
        && !value.chars().any(|c| c.is_control() && c != '\t')
        && !lower.starts_with("fnd-")
        // These belong to the connection and to the length of the body, which fnd alone knows.
        && !["content-length", "connection", "transfer-encoding", "upgrade"].contains(&lower.as_str())
}

/// Returns a route's path without the names of its parameters, which make no difference to what it matches.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment {
        rest if rest.starts_with("{*") => "{*}",
        parameter if parameter.starts_with('{') => "{}",
        fixed => fixed,
    });
    segments.collect::<Vec<_>>().join("/")
}
