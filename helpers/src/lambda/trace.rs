//! Writes a W3C `traceparent` as X-Ray does: `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.

/// Returns the trace in the form of X-Ray; nothing if it has not the form of a `traceparent` (W3C Trace Context, section 3.2).
pub(super) fn x_ray(traceparent: &str) -> Option<String> {
    let mut fields = traceparent.split('-');
    let mut field = |length| fields.next().filter(|field| is_hex(field, length));
    let (_version, trace, parent, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    // X-Ray's first eight digits are the time of the first span. They are no time here, as in traces of OpenTelemetry.
    let (time, unique) = trace.split_at(8);
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1;
    Some(format!("Root=1-{time}-{unique};Parent={parent};Sampled={sampled}"))
}

fn is_hex(field: &str, length: usize) -> bool {
    field.len() == length && field.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_becomes_a_trace_of_x_ray() {
        for (traceparent, expected) in [
            (
                "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01",
                Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"),
            ),
            (
                "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-02",
                Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0"),
            ),
            ("", None),
            ("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8", None),
            ("00-5759e988-53995c3f42cd8ad8-01", None),
            ("00-5759e988bd862e3fe1be46a99427279x-53995c3f42cd8ad8-01", None),
        ] {
            assert_eq!(x_ray(traceparent).as_deref(), expected, "{traceparent}");
        }
    }
}
