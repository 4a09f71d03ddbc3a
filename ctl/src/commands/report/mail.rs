//! A report as a message (RFC 5322), for sendmail: that program adds what is missing, such as the id.

use super::page::lines;
use super::summary::Report;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Columns of a line, which RFC 5322 recommends.
const COLUMNS: u16 = 78;

/// Returns the message. Its lines end as a program writes them; sendmail makes CRLF of that.
pub(super) fn message(report: &Report, now: Timestamp) -> String {
    // A mail is read later and elsewhere, so each time has its offset.
    let zone = TimeZone::system();
    let date = now
        .to_zoned(zone.clone())
        .strftime("%a, %d %b %Y %H:%M:%S %z")
        .to_string();
    let local = |text: &str| match text.parse::<Timestamp>() {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %z").to_string(),
        Err(_) => text.to_owned(),
    };
    let host = header(&report.node);
    let body = lines(report, Some(COLUMNS), local).join("\n");
    // `Auto-Submitted` (RFC 3834) keeps other programs from answering, such as those that answer during a holiday.
    format!(
        "From: fnd <fnd@{host}>\nDate: {date}\nSubject: [fnd] {host}: {}\nAuto-Submitted: auto-generated\n\
         MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}\n",
        header(&report.verdict)
    )
}

/// Returns a text for a header: one line of ASCII.
fn header(text: &str) -> String {
    // A line end would begin another header, so it is replaced, too.
    let shown = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::report;

    #[test]
    fn the_subject_is_the_verdict() {
        let mut report = report();
        report.node = "vm1\r\nBcc: everybody".to_owned();
        let text = super::message(&report, "2026-11-21T08:01:00Z".parse().unwrap());
        let (head, body) = text.split_once("\n\n").unwrap();
        let subject = head.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap();
        assert!(
            subject.ends_with("3 of 6 runs failed, 1 function does not work, 2 dead letters"),
            "{subject}"
        );
        assert!(head.lines().all(|line| !line.starts_with("Bcc")), "{head}");
        let date = head.lines().find_map(|line| line.strip_prefix("Date: ")).unwrap();
        assert!(date.starts_with("Sat, 21 Nov 2026 "), "{date}");
        assert!(body.contains("no answer in 180s") && !body.contains('\u{1b}'), "{body}");
    }
}
