//! A request as an event: payload 2.0 of API Gateway, which Lambda's function URLs send too.

use crate::instant;
use crate::records::protocol::HttpRequest;
use crate::triggers::cgi::server;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fnd_wire::ids::{FunctionName, InvocationId};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The address of a caller at a Unix socket, who is on this machine: functions expect an address.
const THIS_MACHINE: &str = "127.0.0.1";

/// The event. Its keys are those of Lambda's documentation ("Invoking Lambda function URLs"), in its order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestEvent<'a> {
    version: &'static str,
    route_key: &'a str,
    raw_path: &'a str,
    raw_query_string: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cookies: Vec<&'a str>,
    headers: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    query_string_parameters: BTreeMap<String, String>,
    request_context: RequestContext<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    path_parameters: BTreeMap<&'a str, &'a str>,
    is_base64_encoded: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext<'a> {
    account_id: &'static str,
    api_id: &'a str,
    domain_name: &'a str,
    domain_prefix: &'a str,
    http: HttpContext<'a>,
    request_id: String,
    route_key: &'a str,
    stage: &'static str,
    time: String,
    time_epoch: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HttpContext<'a> {
    method: &'a str,
    path: &'a str,
    protocol: &'a str,
    source_ip: &'a str,
    user_agent: &'a str,
}

/// Returns the event of a request to a route, as JSON. It takes at most twice the bytes of the body, and the headers.
#[must_use]
pub fn event(request: &HttpRequest, (function, id): (&FunctionName, InvocationId), body: &[u8]) -> Vec<u8> {
    let route_key = route_key(request);
    let (body, is_base64_encoded) = text_of(header(request, "content-type"), body);
    let params = request
        .params
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let event = RequestEvent {
        version: "2.0",
        route_key: &route_key,
        raw_path: &request.path,
        raw_query_string: &request.query,
        cookies: cookies(request).collect(),
        headers: headers(request),
        query_string_parameters: parameters(&request.query),
        request_context: context(request, (function, id), &route_key),
        body,
        path_parameters: params.collect(),
        is_base64_encoded,
    };
    // The event has only strings, numbers and booleans, which can always be written.
    serde_json::to_vec(&event).unwrap_or_default()
}

fn context<'a>(
    request: &'a HttpRequest,
    (function, id): (&'a FunctionName, InvocationId),
    route_key: &'a str,
) -> RequestContext<'a> {
    let (domain_name, _) = server(request);
    RequestContext {
        // Lambda sends this word where no identity of AWS was checked.
        account_id: "anonymous",
        api_id: function.as_str(),
        domain_name,
        domain_prefix: domain_name.split_once('.').map_or(domain_name, |(prefix, _)| prefix),
        http: HttpContext {
            method: &request.method,
            path: &request.path,
            protocol: &request.protocol,
            source_ip: source_ip(request),
            user_agent: header(request, "user-agent"),
        },
        request_id: id.to_string(),
        route_key,
        stage: "$default",
        time: time(id.unix_ms()),
        time_epoch: id.unix_ms(),
    }
}

/// Returns method and pattern as API Gateway writes them, where `{rest+}` is the rest of a path.
fn route_key(request: &HttpRequest) -> String {
    let pattern = match request.route.split_once("{*") {
        Some((fixed, name)) => Cow::Owned(format!("{fixed}{{{}+}}", name.trim_end_matches('}'))),
        None => Cow::Borrowed(request.route.as_str()),
    };
    format!("{} {pattern}", request.method)
}

/// Returns the first value of a header; empty if there is none.
fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    let mut named = request.headers.iter().filter(|(found, _)| found == name);
    named.next().map_or("", |(_, value)| value.as_str())
}

fn source_ip(request: &HttpRequest) -> &str {
    let remote = Some(request.remote.as_str());
    remote.filter(|remote| !remote.is_empty()).unwrap_or(THIS_MACHINE)
}

/// Returns the headers but the cookies, several values of one name joined by commas.
fn headers(request: &HttpRequest) -> BTreeMap<&str, String> {
    let pairs = request.headers.iter().filter(|(name, _)| name != "cookie");
    let mut headers = joined(pairs.map(|(name, value)| (name.as_str(), value.as_str())));
    let (_, port) = server(request);
    // AWS sets these headers, so functions believe them: a caller must not be able to.
    for (name, value) in [
        ("x-forwarded-for", source_ip(request)),
        ("x-forwarded-port", port),
        ("x-forwarded-proto", request.scheme.as_str()),
    ] {
        headers.insert(name, value.to_owned());
    }
    headers
}

fn cookies(request: &HttpRequest) -> impl Iterator<Item = &str> {
    let all = request.headers.iter().filter(|(name, _)| name == "cookie");
    let cookies = all.flat_map(|(_, value)| value.split(';'));
    cookies.map(str::trim).filter(|cookie| !cookie.is_empty())
}

/// Returns the parameters of a query, decoded, several values of one name joined by commas.
fn parameters(query: &str) -> BTreeMap<String, String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    joined(pairs.map(|(name, value)| (name.into_owned(), value)))
}

fn joined<K: Ord, V: AsRef<str>>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<K, String> {
    let mut all = BTreeMap::<K, String>::new();
    for (name, value) in pairs {
        let value = value.as_ref();
        all.entry(name)
            .and_modify(|known| {
                known.push(',');
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    all
}

/// Returns a body as text, and whether that text is Base64; nothing for a body without bytes.
fn text_of<'a>(content_type: &str, body: &'a [u8]) -> (Option<Cow<'a, str>>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    match str::from_utf8(body) {
        Ok(text) if is_text(content_type) && !text.bytes().any(is_binary) => (Some(text.into()), false),
        _ => (Some(BASE64_STANDARD.encode(body).into()), true),
    }
}

/// Says whether AWS takes a media type for text. A form is none: functions that take forms decode them in any case.
fn is_text(content_type: &str) -> bool {
    let (media, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    let media = media.trim().to_ascii_lowercase();
    let texts = ["application/json", "application/javascript", "application/xml"];
    media.starts_with("text/") || texts.contains(&media.as_str()) || media.ends_with("+json") || media.ends_with("+xml")
}

/// Says whether a byte is a control character that texts do not have. In JSON it would take six bytes.
fn is_binary(byte: u8) -> bool {
    byte < b' ' && !b"\t\n\r\x08\x0c".contains(&byte)
}

/// Returns a time as web servers log it: `12/Mar/2020:19:03:58 +0000`.
fn time(unix_ms: u64) -> String {
    let text = instant::text(unix_ms);
    // An id has 48 bits for its time, so there are years above 9999, which jiff does not know.
    let instant = text.parse::<jiff::Timestamp>().unwrap_or_default();
    instant.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// 2020-03-12T19:03:58.390Z.
    const EPOCH: u64 = 1_584_039_838_390;

    fn id() -> InvocationId {
        InvocationId(u128::from(EPOCH) << 80)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn read(request: &HttpRequest, body: &[u8]) -> Value {
        let function = FunctionName::new("shop/order").unwrap();
        serde_json::from_slice(&event(request, (&function, id()), body)).unwrap()
    }

    /// The request of the sample in Lambda's documentation, to a route of fnd.
    fn request() -> HttpRequest {
        HttpRequest {
            method: "POST".to_owned(),
            path: "/my/a%20path".to_owned(),
            query: "parameter1=value1&parameter1=value2&parameter2=a+b%26".to_owned(),
            route: "/my/{*rest}".to_owned(),
            params: pairs(&[("rest", "a path")]),
            remote: "203.0.113.7".to_owned(),
            scheme: "https".to_owned(),
            host: "api.example.com:8443".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            cgi: false,
            headers: pairs(&[
                ("header1", "value1"),
                ("header2", "value1"),
                ("header2", "value2"),
                ("cookie", "cookie1=a; cookie2=b"),
                ("cookie", "cookie3"),
                ("user-agent", "agent"),
                ("content-type", "text/plain"),
                ("x-forwarded-for", "10.0.0.1"),
                ("x-forwarded-for", "10.0.0.2"),
                ("x-forwarded-proto", "http"),
            ]),
        }
    }

    #[test]
    fn a_request_is_the_event_that_lambda_documents() {
        let expected = json!({
            "version": "2.0",
            "routeKey": "POST /my/{rest+}",
            "rawPath": "/my/a%20path",
            "rawQueryString": "parameter1=value1&parameter1=value2&parameter2=a+b%26",
            "cookies": ["cookie1=a", "cookie2=b", "cookie3"],
            "headers": {
                "header1": "value1",
                "header2": "value1,value2",
                "user-agent": "agent",
                "content-type": "text/plain",
                "x-forwarded-for": "203.0.113.7",
                "x-forwarded-port": "8443",
                "x-forwarded-proto": "https",
            },
            "queryStringParameters": {"parameter1": "value1,value2", "parameter2": "a b&"},
            "requestContext": {
                "accountId": "anonymous",
                "apiId": "shop/order",
                "domainName": "api.example.com",
                "domainPrefix": "api",
                "http": {
                    "method": "POST",
                    "path": "/my/a%20path",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "203.0.113.7",
                    "userAgent": "agent",
                },
                "requestId": id().to_string(),
                "routeKey": "POST /my/{rest+}",
                "stage": "$default",
                "time": "12/Mar/2020:19:03:58 +0000",
                "timeEpoch": EPOCH,
            },
            "body": "Hello from client!",
            "pathParameters": {"rest": "a path"},
            "isBase64Encoded": false,
        });
        assert_eq!(read(&request(), b"Hello from client!"), expected);
    }

    #[test]
    fn keys_without_a_value_are_absent() {
        let request = HttpRequest {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            route: "/".to_owned(),
            ..HttpRequest::default()
        };
        let found = read(&request, b"");
        let mut keys: Vec<_> = found.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut expected = [
            "version",
            "routeKey",
            "rawPath",
            "rawQueryString",
            "headers",
            "requestContext",
            "isBase64Encoded",
        ];
        expected.sort_unstable();
        assert_eq!(keys, expected);
        let context = &found["requestContext"];
        assert_eq!(
            (&context["domainName"], &context["http"]["sourceIp"]),
            (&json!("localhost"), &json!("127.0.0.1"))
        );
    }

    #[test]
    fn a_body_is_text_where_its_type_and_its_bytes_are() {
        for (content_type, body, expected) in [
            ("text/plain", &b"a"[..], Some("a")),
            (
                "application/json; charset=utf-8",
                "{\"ä\":1}".as_bytes(),
                Some("{\"ä\":1}"),
            ),
            ("Application/Problem+JSON", b"{}", Some("{}")),
            ("image/svg+xml", b"<svg/>", Some("<svg/>")),
            ("application/x-www-form-urlencoded", b"a=1", None),
            ("application/octet-stream", b"a", None),
            ("multipart/form-data; boundary=x", b"--x--", None),
            ("", b"a", None),
            ("text/plain", b"\xff", None),
            ("text/plain", b"a\0", None),
            ("text/plain", b"a\tb\r\n", Some("a\tb\r\n")),
        ] {
            let (text, is_base64) = text_of(content_type, body);
            let found = text.filter(|_| !is_base64);
            assert_eq!(found.as_deref(), expected, "{content_type} {body:?}");
        }
    }

    proptest! {
        #[test]
        fn any_request_is_json_from_which_the_body_comes_back(
            body in prop::collection::vec(any::<u8>(), 0..64),
            text in ".{0,32}",
            content_type in prop::sample::select(vec!["text/plain", "application/json", "image/png", ""]),
            path in "/[ -~]{0,20}", query in "[ -~é]{0,20}", value in "[ -~é]{0,9}",
        ) {
            let mut request = HttpRequest { path, query, ..request() };
            request.headers = pairs(&[("content-type", content_type), ("x-a", &value), ("cookie", &value)]);
            for body in [body, text.into_bytes()] {
                let found = read(&request, &body);
                let text = found["body"].as_str().unwrap_or_default();
                let back = match found["isBase64Encoded"].as_bool().unwrap() {
                    true => BASE64_STANDARD.decode(text).unwrap(),
                    false => text.as_bytes().to_vec(),
                };
                prop_assert_eq!(back, body);
                prop_assert_eq!(found["rawPath"].as_str(), Some(request.path.as_str()));
            }
        }

        #[test]
        fn an_event_takes_at_most_twice_the_bytes_of_its_body(body in prop::collection::vec(any::<u8>(), 0..4096)) {
            let function = FunctionName::new("f").unwrap();
            let size = |body: &[u8]| event(&request(), (&function, id()), body).len();
            prop_assert!(size(&body) <= size(b"") + 2 * body.len() + 16);
        }
    }
}
