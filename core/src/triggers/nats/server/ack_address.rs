//! The address to which a delivery is acknowledged. It also has the server's facts about the delivery (ADR-15 of
//! NATS):
//!
//! ```text
//! $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.CONSUMER-SEQUENCE.TIME.PENDING
//! $JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.DELIVERED.SEQUENCE.CONSUMER-SEQUENCE.TIME.PENDING[.RANDOM]
//! ```

/// Number of parts after `$JS.ACK` in the short form.
const SHORT: usize = 7;

/// The facts that the address of a delivery contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckAddress<'a> {
    /// The stream of the message.
    pub stream: &'a str,
    /// The consumer that has delivered it.
    pub consumer: &'a str,
    /// How often it was delivered, by the consumer's count; at least 1.
    pub delivered: u64,
    /// The sequence of the message in its stream.
    pub sequence: u64,
    /// The number of this delivery among all of the consumer. It only grows, until the consumer is deleted and made
    /// anew.
    pub consumer_sequence: u64,
    /// When the stream stored the message, nanoseconds since 1970.
    pub stored_ns: u64,
}

/// Reads an address; nothing if it is none.
#[must_use]
pub fn read(address: &str) -> Option<AckAddress<'_>> {
    let mut parts = address.strip_prefix("$JS.ACK.")?.split('.');
    if parts.clone().count() > SHORT {
        let (_domain, _account) = (parts.next()?, parts.next()?);
    }
    let stream = parts.next()?;
    let consumer = parts.next()?;
    let mut number = || parts.next()?.parse().ok();
    let read = AckAddress {
        stream,
        consumer,
        delivered: number()?,
        sequence: number()?,
        consumer_sequence: number()?,
        stored_ns: number()?,
    };
    let _pending: u64 = number()?;
    (!read.stream.is_empty() && !read.consumer.is_empty() && read.delivered > 0).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: AckAddress<'_> = AckAddress {
        stream: "ORDERS",
        consumer: "fnd-f",
        delivered: 2,
        sequence: 7,
        consumer_sequence: 11,
        stored_ns: 1_795_248_000_123_456_789,
    };

    #[test]
    fn both_forms_say_the_same() {
        for address in [
            "$JS.ACK.ORDERS.fnd-f.2.7.11.1795248000123456789.4",
            "$JS.ACK._.ABCDEF.ORDERS.fnd-f.2.7.11.1795248000123456789.4",
            "$JS.ACK.hub.ABCDEF.ORDERS.fnd-f.2.7.11.1795248000123456789.4.Xy12",
        ] {
            assert_eq!(read(address), Some(EXPECTED), "{address}");
        }
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for address in [
            "",
            "_INBOX.a.b",
            "$JS.ACK.ORDERS.fnd-f.2.7.11.1795248000123456789",
            "$JS.ACK.ORDERS.fnd-f.0.7.11.1795248000123456789.4",
            "$JS.ACK.ORDERS.fnd-f.2.seven.11.1795248000123456789.4",
            "$JS.ACK..fnd-f.2.7.11.1795248000123456789.4",
            "$JS.ACK.hub.ABCDEF.ORDERS.fnd-f.2.7.11.1795248000123456789",
        ] {
            assert_eq!(read(address), None, "{address}");
        }
    }
}
