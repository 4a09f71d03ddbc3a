//! The signal by which the other program asks one of its programs to end.

use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use fnd_wire::plan::STOP_SIGNALS;
use toml::Value;

/// The grace of a program that SIGKILL ends at once.
const AT_ONCE: &str = "0";

/// Takes a signal over, by its name or its number. A function that is no service has no `service.stop_signal`.
pub(crate) fn stop_signal(
    made: &mut MadeManifest,
    report: &mut ConversionReport,
    (field, value): (&Field, &str),
    service: bool,
) {
    let upper = value.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_named = |(own, number): &&(&str, i32)| *own == name || number.to_string() == name;
    match STOP_SIGNALS.iter().find(is_named) {
        Some(("TERM", _)) => report.works(field, ""),
        Some((own, _)) if service => made.works(report, "service.stop_signal", *own, field),
        None if ["KILL", "9"].contains(&name) => {
            let note = "SIGTERM comes first, and SIGKILL at once behind it";
            made.differs(report, ("limits.grace", AT_ONCE), field, note);
        }
        _ => report.differs(
            field,
            "",
            "fnd sends SIGTERM to every process: let the program end by it as by the other signal",
        ),
    }
}

/// Says whether SIGKILL ends the program at once. Then the time that the other program would wait before it, of this field, does not
/// matter: a file may have both, in any order.
pub(crate) fn is_killed_at_once(made: &MadeManifest, report: &mut ConversionReport, field: &Field) -> bool {
    let is_at_once = made.manifest.get("limits.grace").and_then(Value::as_str) == Some(AT_ONCE);
    if is_at_once {
        report.differs(field, "", "SIGKILL comes at once, so there is nothing to wait for");
    }
    is_at_once
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::foreign::FieldVerdict::{Differs, Works};

    #[test]
    fn a_signal_becomes_the_key_of_a_service() {
        for (value, service, verdict, becomes) in [
            ("SIGINT", true, Works, Some(("service.stop_signal", "INT"))),
            ("quit", true, Works, Some(("service.stop_signal", "QUIT"))),
            ("28", true, Works, Some(("service.stop_signal", "WINCH"))),
            ("SIGTERM", true, Works, None),
            ("15", false, Works, None),
            ("INT", false, Differs, None),
            ("SIGKILL", true, Differs, Some(("limits.grace", "0"))),
            ("9", false, Differs, Some(("limits.grace", "0"))),
            ("SIGCONT", true, Differs, None),
            ("RTMIN+3", true, Differs, None),
            ("", true, Differs, None),
        ] {
            let (mut made, mut report) = (MadeManifest::new("a"), ConversionReport::default());
            let field = Field {
                file: "a.conf".to_owned(),
                name: "stopsignal".to_owned(),
                line: 1,
                column: 1,
                excerpt: String::new(),
            };
            stop_signal(&mut made, &mut report, (&field, value), service);
            assert_eq!(report.rows[0].verdict, verdict, "{value}");
            assert_eq!(
                report.rows[0].becomes.as_deref(),
                becomes.map(|(key, _)| key),
                "{value}"
            );
            let written = becomes.and_then(|(key, _)| made.manifest.get(key)?.as_str());
            assert_eq!(written, becomes.map(|(_, value)| value), "{value}");
        }
    }
}
