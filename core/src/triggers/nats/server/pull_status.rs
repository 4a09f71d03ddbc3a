//! Reads a message without a payload on the inbox of a pull request. Such a message means that the server keeps the
//! request, has ended it, or has nothing that could answer it (ADR-13 and ADR-37 of NATS).

use crate::triggers::nats::message::begins_with;

/// The server keeps the request alive.
const HEARTBEAT: u16 = 100;
/// There are no messages, and the request does not wait.
const NO_MESSAGES: u16 = 404;
/// The time of the request is over.
const TIMED_OUT: u16 = 408;
/// The request has ended before its time.
const ENDED: u16 = 409;
/// Nothing listens where the request was sent: there is no such consumer, no such stream, or no JetStream.
const NO_RESPONDERS: u16 = 503;

/// The state of a pull request, as the server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullStatus {
    /// It waits for messages.
    Waits,
    /// It has ended. Messages that have not come may be asked for again.
    Ended,
    /// Its consumer is gone.
    Gone,
    /// The server does not take such a request; in its words. The same request would be refused again.
    Refused(String),
}

/// Reads the status that the server sends to the address of a pull request.
#[must_use]
pub fn read(code: u16, description: &str) -> PullStatus {
    let says = |beginning: &str| begins_with(description, beginning);
    match code {
        HEARTBEAT => PullStatus::Waits,
        NO_RESPONDERS => PullStatus::Gone,
        ENDED if says("Consumer Deleted") => PullStatus::Gone,
        // Limits that somebody gave the consumer, or one that sends its messages unasked.
        ENDED if says("Exceeded MaxRequest") || says("Consumer is push based") => refused(code, description),
        // A new leader, a server that stops, a batch that is complete or full.
        NO_MESSAGES | TIMED_OUT | ENDED => PullStatus::Ended,
        _ => refused(code, description),
    }
}

fn refused(code: u16, description: &str) -> PullStatus {
    PullStatus::Refused(format!("{description} ({code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_ends_or_is_refused() {
        let refused = |words: &str| PullStatus::Refused(words.to_owned());
        for (code, description, expected) in [
            (100, "Idle Heartbeat", PullStatus::Waits),
            (404, "No Messages", PullStatus::Ended),
            (408, "Request Timeout", PullStatus::Ended),
            (408, "Interest Expired", PullStatus::Ended),
            (409, "Batch Completed", PullStatus::Ended),
            (409, "Leadership Change", PullStatus::Ended),
            (409, "Server Shutdown", PullStatus::Ended),
            (409, "Message Size Exceeds MaxBytes", PullStatus::Ended),
            (409, "Consumer Deleted", PullStatus::Gone),
            (409, "consumer deleted", PullStatus::Gone),
            (503, "", PullStatus::Gone),
            (
                409,
                "Exceeded MaxRequestBatch of 4",
                refused("Exceeded MaxRequestBatch of 4 (409)"),
            ),
            (409, "Consumer is push based", refused("Consumer is push based (409)")),
            (400, "Bad Request", refused("Bad Request (400)")),
            (423, "Nats-Wrong-Pin-Id", refused("Nats-Wrong-Pin-Id (423)")),
        ] {
            assert_eq!(read(code, description), expected, "{code} {description}");
        }
    }
}
