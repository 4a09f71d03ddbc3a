//! Values of `[[nats]]` and of `[events.nats]`: subjects, and the names of streams, consumers, buckets, nodes and servers.
//!
//! The rules are those of the server (subject-based messaging, ADR-6 and ADR-8 of NATS): it refuses other names only when they are
//! used.

use crate::schema::TextGrammar;
use crate::words;

words! {
    /// When a message is acknowledged.
    pub enum AckMode {
        /// When its final record is on the disk. Other nodes can go on with it if this one does not.
        Done = "done",
        /// When it is accepted: this node has it, whatever becomes of the node.
        Accept = "accept",
    }

    /// Where a new consumer begins.
    pub enum DeliverFrom {
        /// With the oldest message of the stream.
        All = "all",
        /// With the next message that is published.
        New = "new",
    }
}

/// Longest subject and name. The server takes more of both, and no person writes them.
const NAME_MAX: usize = 255;

/// A subject with wildcards.
pub(crate) const SUBJECT: TextGrammar = TextGrammar {
    name: "Subject",
    expected: "a subject such as `orders.new`, `orders.*` or `orders.>`: parts between dots, none of them empty, `*` and `>` alone \
               in their part, `>` at the end only, and no blanks",
    holds: |text| is_subject(text, true),
    pattern: || "^[^$\\s][^\\s]*$".to_owned(),
};

/// A subject to which messages are published.
pub(crate) const TARGET: TextGrammar = TextGrammar {
    name: "Target",
    expected: "a subject without wildcards, such as `orders.done`",
    holds: |text| is_subject(text, false),
    pattern: || "^[^$\\s*>][^\\s*>]*$".to_owned(),
};

/// The name of a stream or of a consumer.
pub(crate) const STREAM: TextGrammar = TextGrammar {
    name: "StreamName",
    expected: "a name without blanks, `.`, `*`, `>`, `/` and `\\`, such as `ORDERS`",
    holds: is_stream,
    pattern: || "^[^\\s.*>/\\\\]+$".to_owned(),
};

/// The name of a bucket of keys and values.
pub(crate) const BUCKET: TextGrammar = TextGrammar {
    name: "Bucket",
    expected: "letters, digits, `_` and `-`, such as `fnd-claims`",
    holds: |text| is_made_of(text, b"_-"),
    pattern: || "^[A-Za-z0-9_-]+$".to_owned(),
};

/// The name of a node, which is a part of a key.
pub(crate) const NODE: TextGrammar = TextGrammar {
    name: "Node",
    expected: "letters, digits, `_`, `-` and `.`, not beginning or ending with a `.`, such as `vm1`",
    holds: is_node,
    pattern: || "^[A-Za-z0-9_-]([A-Za-z0-9._-]*[A-Za-z0-9_-])?$".to_owned(),
};

/// The address of a server.
pub(crate) const SERVER: TextGrammar = TextGrammar {
    name: "NatsServer",
    expected: "`nats://HOST:PORT` or `tls://HOST:PORT`, without a password (`credentials` names a secret), such as `tls://n1:4222`",
    holds: is_server,
    pattern: || "^((nats|tls)://)?[^/@\\s]+$".to_owned(),
};

/// Says whether a text is a subject.
fn is_subject(text: &str, wildcards: bool) -> bool {
    let mut parts = text.split('.').peekable();
    while let Some(part) = parts.next() {
        let is_fine = match part {
            "" => false,
            "*" => wildcards,
            ">" => wildcards && parts.peek().is_none(),
            part => !part.contains(['*', '>']) && !part.chars().any(|c| c.is_whitespace() || c.is_control()),
        };
        if !is_fine {
            return false;
        }
    }
    // These are the server's own: `$JS` controls streams, `$KV` has the claims.
    text.len() <= NAME_MAX && !text.starts_with('$')
}

fn is_stream(text: &str) -> bool {
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    (1..=NAME_MAX).contains(&text.len()) && !text.chars().any(is_bad)
}

fn is_made_of(text: &str, more: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
}

/// Says whether a text is a subject to which messages are published.
#[must_use]
pub fn is_target(text: &str) -> bool {
    is_subject(text, false)
}

/// Says whether a text can be the name of a node; a host name that cannot is refused where fnd uses it by default.
#[must_use]
pub fn is_node(text: &str) -> bool {
    is_made_of(text, b"_-.") && !text.starts_with('.') && !text.ends_with('.') && !text.contains("..")
}

fn is_server(text: &str) -> bool {
    let address = match text.split_once("://") {
        Some(("nats" | "tls", address)) => address,
        Some(_) => return false,
        None => text,
    };
    // The port follows the last `:`; an IPv6 address has its own in brackets.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (address, None),
    };
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || "/@?#".contains(c);
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    !host.is_empty() && !host.chars().any(is_bad) && port.is_none_or(is_port)
}

/// Says whether a pattern of subjects matches a subject, or one of those that another pattern stands for.
#[must_use]
pub fn overlaps(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            // A `>` stands for one part or more.
            (Some(">"), Some(_)) | (Some(_), Some(">")) | (None, None) => return true,
            (None, _) | (_, None) => return false,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grammar: &TextGrammar, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!((grammar.holds)(text), "{text}");
        }
        for text in bad {
            assert!(!(grammar.holds)(text), "{text:?}");
        }
    }

    #[test]
    fn subjects_are_parts_between_dots() {
        let both = ["orders", "orders.new", "bestellungen.grün"];
        let wild = ["orders.*", "*", "*.new", "orders.>", ">"];
        let none = [
            "",
            ".",
            "orders.",
            ".new",
            "a..b",
            "a b",
            "a.b*",
            "a.>.b",
            "a>",
            "$JS.API.>",
            "a\nb",
        ];
        check(&SUBJECT, &both, &none);
        check(&SUBJECT, &wild, &[]);
        check(&TARGET, &both, &none);
        check(&TARGET, &[], &wild);
    }

    #[test]
    fn names_have_only_what_the_server_takes() {
        check(&STREAM, &["ORDERS", "a-b_c"], &["", "a.b", "a b", "a/b", "a*", ">"]);
        check(&BUCKET, &["fnd-claims", "A_1"], &["", "a.b", "a b", "ä"]);
        check(
            &NODE,
            &["vm1", "vm1.example.com"],
            &["", ".vm1", "vm1.", "a..b", "a b", "a*"],
        );
        let long = "a".repeat(NAME_MAX + 1);
        check(&STREAM, &[&long[..NAME_MAX]], &[&long]);
    }

    #[test]
    fn servers_have_no_password_in_their_address() {
        let good = [
            "nats://n1:4222",
            "tls://n1.example.com:4222",
            "n1",
            "n1:4222",
            "nats://[::1]:4222",
            "tls://[::1]",
        ];
        let bad = [
            "",
            "nats://",
            "ws://n1:80",
            "http://n1",
            "nats://ada:secret@n1:4222",
            "nats://n1:0",
            "nats://n1:x",
            "nats://n1/a",
            "nats://n1 :4222",
        ];
        check(&SERVER, &good, &bad);
    }

    #[test]
    fn subjects_that_could_be_the_same_overlap() {
        for (one, other, expected) in [
            ("orders.new", "orders.new", true),
            ("orders.*", "orders.new", true),
            ("orders.>", "orders.new.eu", true),
            ("orders.>", "orders", false),
            ("orders.*", "orders.new.eu", false),
            ("*.new", "orders.*", true),
            ("dlq.orders", "orders.>", false),
        ] {
            assert_eq!(overlaps(one, other), expected, "{one} {other}");
            assert_eq!(overlaps(other, one), expected, "{other} {one}");
        }
    }
}
