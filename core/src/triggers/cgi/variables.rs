//! A request as the variables of CGI/1.1 (RFC 3875, section 4.1). Only a request that came by a route has them.
//!
//! A caller chooses headers, and with them names and values of variables. So a name has only letters, digits and
//! underscores after `HTTP_`; a header whose own name has an underscore is left out, because `X_A` would be taken for
//! `X-A`; and there is no `HTTP_PROXY`, which many programs take for their proxy.

use crate::records::protocol::HttpRequest;
use percent_encoding::percent_decode_str;

/// Most bytes of all names and values together. Beyond it the longest variables are left out.
pub const VARIABLES_MAX: usize = 64 << 10;
/// Most variables of headers.
const HEADERS_MAX: usize = 200;

/// Returns the variables of a request whose body has `length` bytes. A value that cannot be a variable is left out: one
/// with a NUL byte, and a path that is not UTF-8.
#[must_use]
pub fn variables(request: &HttpRequest, content_type: Option<&str>, length: Option<u64>) -> Vec<(String, String)> {
    if request.route.is_empty() {
        return Vec::new();
    }
    let (name, port) = server(request);
    let mut all: Vec<(String, String)> = [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", concat!("fnd/", env!("CARGO_PKG_VERSION"))),
        ("SERVER_PROTOCOL", &request.protocol),
        ("SERVER_NAME", name),
        ("SERVER_PORT", port),
        ("REQUEST_METHOD", &request.method),
        ("QUERY_STRING", &request.query),
        ("REMOTE_ADDR", &request.remote),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    // `REQUEST_URI` is not in RFC 3875, but web servers set it and many scripts read it.
    let mark = if request.query.is_empty() { "" } else { "?" };
    add("REQUEST_URI", format!("{}{mark}{}", request.path, request.query));
    if let Some((script, info)) = paths(request) {
        add("SCRIPT_NAME", script);
        add("PATH_INFO", info);
    }
    if request.scheme == "https" {
        add("HTTPS", "on".to_owned());
    }
    if let Some(content_type) = content_type {
        add("CONTENT_TYPE", content_type.to_owned());
    }
    if let Some(length) = length {
        add("CONTENT_LENGTH", length.to_string());
    }
    for (name, value) in &request.params {
        let name = name.to_ascii_uppercase().replace('-', "_");
        if !name.is_empty() && name.bytes().all(is_of_name) {
            add(&format!("FND_PARAM_{name}"), value.clone());
        }
    }
    all.extend(of_headers(request));
    all.retain(|(_, value)| !value.contains('\0'));
    bound(&mut all);
    all
}

/// Returns the fixed beginning of the route and the rest of the path, decoded: together they are the path.
fn paths(request: &HttpRequest) -> Option<(String, String)> {
    let path = percent_decode_str(&request.path).decode_utf8().ok()?.into_owned();
    // `{{` is a brace and no parameter. A control character, which no route has, stands for it meanwhile.
    let pattern = request.route.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let fixed = match pattern.find('{') {
        Some(parameter) => pattern
            .get(..parameter)?
            .rsplit_once('/')
            .map_or("", |(before, _)| before),
        None => pattern.strip_suffix('/').unwrap_or(&pattern),
    };
    let fixed = fixed.replace('\u{1}', "{").replace('\u{2}', "}");
    match path.strip_prefix(&fixed) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some((fixed, rest.to_owned())),
        // The route is written another way than the path: no part of the path is certain to be fixed.
        _ => Some((String::new(), path)),
    }
}

/// Returns name and port of the server that the caller asked.
pub(in crate::triggers) fn server(request: &HttpRequest) -> (&str, &str) {
    let standard = if request.scheme == "https" { "443" } else { "80" };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    // The part after the last colon of an IPv6 address ends with `]`, so it is not taken for a port.
    match request.host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.is_empty() => (name, port),
        _ if request.host.is_empty() => ("localhost", standard),
        _ => (&request.host, standard),
    }
}

fn of_headers(request: &HttpRequest) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in &request.headers {
        // A request that came by a route has lower-case names. One that was passed through a socket may have others.
        let name = name.to_ascii_lowercase();
        // Type and length of the body have variables of their own, and `Proxy` would become `HTTP_PROXY`.
        let is_own = matches!(name.as_str(), "content-type" | "content-length" | "proxy");
        if is_own || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') || name.is_empty() {
            continue;
        }
        let variable = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
        if let Some((_, known)) = all.iter_mut().find(|(known, _)| *known == variable) {
            // RFC 6265, section 5.4: a cookie may contain a comma.
            known.push_str(if name == "cookie" { "; " } else { ", " });
            known.push_str(value);
        } else if all.len() < HEADERS_MAX {
            all.push((variable, value.clone()));
        }
    }
    all
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

/// Leaves out the longest variables until the others are within the bound: most of what a script needs is short.
fn bound(all: &mut Vec<(String, String)>) {
    // Each variable takes a `=` and a NUL byte more.
    let size = |(name, value): &(String, String)| name.len() + value.len() + 2;
    let mut total: usize = all.iter().map(size).sum();
    while total > VARIABLES_MAX {
        let longest = all.iter().enumerate().max_by_key(|(_, variable)| size(variable));
        let Some(place) = longest.map(|(place, _)| place) else {
            return;
        };
        total -= size(&all.remove(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(route: &str, path: &str) -> HttpRequest {
        HttpRequest {
            method: "POST".to_owned(),
            path: path.to_owned(),
            route: route.to_owned(),
            scheme: "http".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            ..HttpRequest::default()
        }
    }

    fn value(request: &HttpRequest, name: &str) -> Option<String> {
        let mut found = variables(request, Some("text/plain"), Some(3))
            .into_iter()
            .filter(|(known, _)| known == name);
        let first = found.next();
        assert_eq!(found.next(), None, "{name} is there twice");
        first.map(|(_, value)| value)
    }

    #[test]
    fn a_request_without_a_route_has_no_variables() {
        assert_eq!(variables(&request("", "/"), Some("text/plain"), Some(3)), []);
    }

    #[test]
    fn script_name_and_path_info_are_the_whole_path() {
        for (route, path, script, info) in [
            ("/hello", "/hello", "/hello", ""),
            ("/", "/", "", "/"),
            ("/a/", "/a/", "/a", "/"),
            ("/users/{id}", "/users/7", "/users", "/7"),
            ("/files/{*rest}", "/files/a%20b/c", "/files", "/a b/c"),
            ("/{*rest}", "/x", "", "/x"),
            ("/a/v{n}/x", "/a/v2/x", "/a", "/v2/x"),
            ("/{{a}}/{b}", "/%7Ba%7D/c", "/{a}", "/c"),
            ("/a b/{c}", "/a%20b/c", "/a b", "/c"),
            ("/A/{b}", "/a/b", "", "/a/b"),
        ] {
            let request = request(route, path);
            let found = (value(&request, "SCRIPT_NAME"), value(&request, "PATH_INFO"));
            assert_eq!(
                found,
                (Some(script.to_owned()), Some(info.to_owned())),
                "{route} {path}"
            );
        }
        assert_eq!(value(&request("/{*a}", "/%ff"), "PATH_INFO"), None);
        assert_eq!(value(&request("/{*a}", "/%00"), "PATH_INFO"), None);
    }

    #[test]
    fn the_request_and_the_server_are_described() {
        let mut request = request("/users/{user-id}", "/users/7");
        request.query = "a=b&c".to_owned();
        request.remote = "192.0.2.7".to_owned();
        request.params = vec![("user-id".to_owned(), "7".to_owned()), ("ü".to_owned(), "8".to_owned())];
        for (name, expected) in [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/users/7?a=b&c"),
            ("QUERY_STRING", "a=b&c"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "3"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("SERVER_NAME", "localhost"),
            ("SERVER_PORT", "80"),
            ("FND_PARAM_USER_ID", "7"),
        ] {
            assert_eq!(value(&request, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(value(&request, "HTTPS"), None);
        assert!(
            variables(&request, None, None)
                .iter()
                .all(|(name, _)| !name.starts_with("CONTENT_") && name.is_ascii())
        );
        request.scheme = "https".to_owned();
        assert_eq!(value(&request, "HTTPS").as_deref(), Some("on"));
        for (host, name, port) in [
            ("example.com", "example.com", "443"),
            ("example.com:8443", "example.com", "8443"),
            ("[::1]:8080", "[::1]", "8080"),
            ("[::1]", "[::1]", "443"),
            ("a:", "a:", "443"),
        ] {
            request.host = host.to_owned();
            let found = (value(&request, "SERVER_NAME"), value(&request, "SERVER_PORT"));
            assert_eq!(found, (Some(name.to_owned()), Some(port.to_owned())), "{host}");
        }
    }

    #[test]
    fn headers_become_variables_unless_a_caller_could_mean_another_name() {
        let mut request = request("/", "/");
        request.headers = [
            ("user-agent", "curl"),
            ("x-a-b", "right"),
            ("x-a_b", "wrong"),
            ("x_a_b", "wrong"),
            ("proxy", "http://evil"),
            ("Proxy", "http://evil"),
            ("PROXY", "http://evil"),
            ("Content-Type", "x"),
            ("content-type", "x"),
            ("content-length", "9"),
            ("x.y", "z"),
            ("accept", "a"),
            ("accept", "b"),
            ("cookie", "c=1"),
            ("Cookie", "d=2"),
            ("x-nul", "a\0b"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let all = variables(&request, None, None);
        let of_headers: Vec<_> = all.iter().filter(|(name, _)| name.starts_with("HTTP_")).collect();
        let expected = [
            ("HTTP_USER_AGENT", "curl"),
            ("HTTP_X_A_B", "right"),
            ("HTTP_ACCEPT", "a, b"),
            ("HTTP_COOKIE", "c=1; d=2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(of_headers, expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_longest_variables_are_left_out_beyond_the_bound() {
        let mut request = request("/", "/");
        let header = |name: &str, size: usize| (name.to_owned(), "x".repeat(size));
        request.headers = vec![header("a", 40_000), header("b", 30_000), header("c", 20_000)];
        let all = variables(&request, None, None);
        let has = |name: &str| all.iter().any(|(known, _)| known == name);
        assert_eq!(
            (has("HTTP_A"), has("HTTP_B"), has("HTTP_C"), has("REQUEST_METHOD")),
            (false, true, true, true)
        );
        request.headers = (0..1000).map(|n| header(&format!("x{n}"), 1)).collect();
        let all = variables(&request, None, None);
        assert_eq!(
            all.iter().filter(|(name, _)| name.starts_with("HTTP_")).count(),
            HEADERS_MAX
        );
    }

    proptest! {
        #[test]
        fn whatever_a_caller_sends_the_spawner_accepts(
            path in "/[ -~]{0,20}", route in "/[a-z{}*/]{0,20}", query in "[ -~\0]{0,9}",
            params in prop::collection::vec(("[a-z_=-]{0,9}", "[ -~\0é]{0,9}"), 0..4),
            headers in prop::collection::vec(("[a-zA-Z_=\0-]{0,9}", "[ -~\0é]{0,9}"), 0..9),
        ) {
            let request = HttpRequest { path, route, query, params, headers, ..HttpRequest::default() };
            for (name, value) in variables(&request, None, None) {
                prop_assert!(fnd_wire::plan::may_be_given(&name), "{name}");
                prop_assert!(!value.contains('\0'));
            }
        }
    }
}
