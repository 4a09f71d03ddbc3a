//! Headers of messages: between the list that fnd has and the map of the client.

use async_nats::{HeaderMap, HeaderName, HeaderValue, Message};
use fnd_core::triggers::nats::message::UNREADABLE;

/// Returns the headers of a message, sorted by name: the client does not keep the order of names, only that of the
/// values of one name. The name that only fnd gives is left out: this message can be read.
pub(super) fn of(message: &Message) -> Vec<(String, String)> {
    let all = message.headers.iter().flat_map(HeaderMap::iter);
    let all = all.filter(|(name, _)| !name.to_string().eq_ignore_ascii_case(UNREADABLE));
    let mut pairs: Vec<(String, String)> = all
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    pairs
}

/// Returns the first value of a header.
pub(super) fn first<'a>(message: &'a Message, name: &'static str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

/// Returns headers for a message. A name that is none is left out, and a value is one line: the client panics at
/// others.
pub(super) fn map(headers: &[(String, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let value = value.replace(['\r', '\n'], " ");
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn headers_keep_the_order_of_their_values_and_are_sorted_by_name() {
        let headers = [
            pair("Zeta", "1"),
            pair("Alpha", "b"),
            pair("Alpha", "a"),
            pair("bad name", "x"),
            pair("fnd-unreadable", "1"),
            pair("Lines", "a\r\nb"),
        ];
        let message = Message {
            subject: "a".into(),
            reply: None,
            payload: bytes::Bytes::new(),
            headers: Some(map(&headers)),
            status: None,
            description: None,
            length: 0,
        };
        let expected = [
            pair("Alpha", "b"),
            pair("Alpha", "a"),
            pair("Lines", "a  b"),
            pair("Zeta", "1"),
        ];
        assert_eq!(of(&message), expected);
        assert_eq!((first(&message, "Zeta"), first(&message, "Beta")), (Some("1"), None));
    }
}
