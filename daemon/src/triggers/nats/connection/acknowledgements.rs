//! The answers to the server about a delivery: the texts of the protocol (ADR-15 of NATS).

use crate::triggers::nats::request::AckSignal;
use async_nats::Client;
use bytes::Bytes;
use std::time::Duration;

/// From this version on a server takes a reason with the end of a message. One before it ignores an end with a reason,
/// and answers as if it had not.
const TAKES_REASON: (i64, i64, i64) = (2, 10, 4);

/// Returns the text of a signal.
pub(super) fn signal(signal: AckSignal) -> Bytes {
    match signal {
        AckSignal::Progress => Bytes::from_static(b"+WPI"),
        AckSignal::GiveBack(rest) => give_back(rest),
    }
}

/// Returns the text that gives a message back.
pub(super) fn give_back(rest: Duration) -> Bytes {
    format!("-NAK {{\"delay\": {}}}", rest.as_nanos()).into()
}

/// Returns the text that ends a message; `term` is why it can never run.
pub(super) fn end(client: &Client, term: Option<&str>) -> Bytes {
    let (major, minor, patch) = TAKES_REASON;
    end_for(client.is_server_compatible(major, minor, patch), term)
}

fn end_for(takes_reason: bool, term: Option<&str>) -> Bytes {
    match term {
        None => Bytes::from_static(b"+ACK"),
        Some(why) if takes_reason => format!("+TERM {}", why.replace(['\r', '\n'], " ")).into(),
        Some(_) => Bytes::from_static(b"+TERM"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_its_text() {
        let half = Duration::from_millis(1500);
        assert_eq!(signal(AckSignal::Progress), "+WPI");
        assert_eq!(signal(AckSignal::GiveBack(half)), r#"-NAK {"delay": 1500000000}"#);
        assert_eq!(
            (end_for(true, None), end_for(false, None)),
            ("+ACK".into(), "+ACK".into())
        );
        assert_eq!(end_for(true, Some("begun 5\ntimes")), "+TERM begun 5 times");
        assert_eq!(end_for(false, Some("begun 5 times")), "+TERM");
    }
}
