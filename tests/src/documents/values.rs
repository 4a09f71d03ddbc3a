//! Values that differ from run to run, such as ids, times and sizes. A page has those of the day on which it was recorded;
//! another value of the same kind is as good. All else counts: words, states and counts.

use regex_lite::Regex;
use std::sync::LazyLock;

/// A pattern and the kind that takes the place of its text; `$1` is the part of it that counts. A pattern is applied to all
/// that the ones before it left.
///
/// A duration or size in quotes is a setting (`timeout = "10s"`), so it counts.
const KINDS: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    // A position in the stream of events.
    (r"\b\d{13}-\d+\b", "<position>"),
    (
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?\b",
        "<time>",
    ),
    (
        r"\b[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|[+-]\d{4})\b",
        "<time>",
    ),
    (r"\b\d{8}T\d{6}Z\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\d\b", "<date>"),
    (r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b", "<time>"),
    // Unix time in seconds; its digits could also be a hash.
    (r"\b1[789]\d{8}\b", "<time>"),
    // The time zone of the machine.
    (r"\b(?:UTC|[A-Z][a-z]+/[A-Z][A-Za-z_]+)\b", "<zone>"),
    // jq 1.7 has other words and another code than jq 1.6.
    (r"\bexit-[45]\b", "exit-<jq>"),
    (r"\bparse error: Invalid .*$", "<jq>"),
    // `fndctl secret new` and `fndctl secret keygen`.
    (r"^[A-Za-z0-9_-]{40,}$", "<secret>"),
    (r"\bage1[02-9a-z]{58}\b", "<secret>"),
    (
        r"\bsha256:[0-9a-f]{6,64}\b|\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b",
        "<hash>",
    ),
    (r"\b[0-9a-f]{32}\b", "<id>"),
    // The end of an id, in tables.
    (r"\b[0-9a-f]{8}\b", "<id>"),
    (r"(^|[^\w-])((?:pid|uid|gid|port) +)\d+\b", "$1$2<number>"),
    // A worker.
    (r"( as w)\d+\b", "$1<number>"),
    // Ports that the kernel chooses; others are settings.
    (r#"([^"]):(?:3[3-9]|[45]\d|6[0-5])\d{3}\b"#, "$1:<port>"),
    // What a machine measures, in JSON.
    (
        r#"("(?:pid|uid|port|worker|duration_ms|cpu_ms|memory_peak_bytes|used_percent|free_bytes|free_megabytes|one|five|fifteen)": ?)\d+(?:\.\d+)?"#,
        "$1<number>",
    ),
    (
        r#"(^|[^"\w.])\d+(?:\.\d+)? ?(?:ms|min|[smhdy])(?: ?\d+(?:\.\d+)? ?(?:ms|min|[smhd]))*\b"#,
        "$1<duration>",
    ),
    (r#"(^|[^"\w.])\d+(?:\.\d+)? ?(?:B|[KMGT](?:i?B)?)\b"#, "$1<size>"),
    // The memory that a function uses now, and its peak.
    (r"<size>/(?:<size>|-)", "<size>"),
    (r"(^|[^\w.])\d+(?:\.\d+)? ?%( used)", "$1<percent>$2"),
    (
        r"\b(bash|deno|fnd|fndctl|lua|node|perl|php|python|ruby)( ?)v?(?:\d+(?:\.\d+)+|\d+\b)",
        "$1$2<version>",
    ),
    // Three numbers: four are an address.
    (r"(^|[^\w.])v?\d+\.\d+\.\d+($|[^\w.])", "$1<version>$2"),
    // Seconds of metrics. No count and no price has three decimals.
    (r"(^|[^\w.])\d+\.\d{3,}\b", "$1<number>"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = |&(pattern, kind)| (Regex::new(pattern).expect("a pattern of the table compiles"), kind);
    KINDS.iter().map(compiled).collect()
});

/// Words that no line needs. Cells without a value: memory where nothing can measure it, `-`, and the names of columns that
/// `fndctl` leaves out of a wide table where no row has a value.
const EMPTY: [&str; 5] = ["-", "<size>", "LAST", "MEMORY", "NEXT"];

/// Returns a line with the kinds of its values in their places, and with one blank between words. A printed line is as good as
/// that of a page where both give the same. Cells without a value are left out, unless the output has the page's columns: then
/// a cell without a value keeps its place in the line.
pub(super) fn plain(line: &str, has_columns: bool) -> String {
    let put = |line: String, (pattern, kind): &(Regex, &str)| pattern.replace_all(&line, *kind).into_owned();
    let kinds = PATTERNS.iter().fold(line.trim().to_owned(), put);
    let words = kinds.split_whitespace().filter_map(|word| match word {
        "-" | "<size>" if has_columns => Some("-"),
        _ => (!EMPTY.contains(&word)).then_some(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::plain as plain_in;

    fn plain(line: &str) -> String {
        plain_in(line, false)
    }

    #[test]
    fn values_of_the_same_kind_are_as_good() {
        for (shown, printed) in [
            ("a   b", "a b"),
            (
                "01934567-89ab-7def-8123-456789abcdef: x",
                "01999999-0000-7def-8123-00000000face: x",
            ),
            ("89abcdef  hello  ok", "12345678 hello ok"),
            ("2026-11-21T08:00:00.123Z | x", "2027-01-01T00:00:00Z | x"),
            ("2026-11-21 08:00:00.123", "2027-01-01 23:59:59.000"),
            ("2026-11-21 08:00 +0100", "2027-06-01 23:59 +0200"),
            ("in 5h  2026-12-01T02:30:00+01:00", "in 11s  2026-06-01T02:30:00+02:00"),
            (
                "date: Mon, 30 Nov 2026 12:43:40 GMT",
                "date: Tue, 1 Dec 2026 02:43:40 GMT",
            ),
            ("at 08:00:01.250", "at 23:59:59"),
            ("dump  Etc/UTC  -", "dump  Europe/Berlin  -"),
            ("exit-4: parse error: Invalid x", "exit-5: parse error: Invalid y"),
            ("after 3 ms (x)", "after 12 ms (x)"),
            ("ran 1.20s, 59.9s", "ran 12.3ms, 3m05s"),
            ("took 1.2 s", "took 2m 5s"),
            ("5s ago", "3d ago"),
            ("in 4h", "in 1h30m"),
            ("12.3 MiB of 64M", "9 KiB of 512B"),
            ("ok 5s ago 1 0 3.1ms 9.2M", "ok 1m ago 1 0 0.4ms -"),
            ("up 3h  52M/60M", "up 2s  8M/-"),
            ("ended (pid 4711)", "ended (pid 12)"),
            ("uid           70001", "uid 62003"),
            ("STATE NEXT RUNS MEMORY", "STATE RUNS"),
            ("ready - 1 3M", "ready 1"),
            ("calls 2 0.0213", "calls 2 0.123456"),
            ("401 from 127.0.0.1:41234", "401 from 127.0.0.1:60000"),
            ("up 5s, :41234", "up 6s, :33001"),
            ("version abababababab", "version 0123456789ab"),
            ("(sha256:abababababab)", "(sha256:0123456789ab)"),
            ("at least 12 % used", "at least 99.5% used"),
            ("python 3.11  python3.11", "python 3.13.1  python3.13"),
            ("fnd 0.1.0 serves", "fnd 12.34.56 serves"),
            ("idna 3.10.1, x", "idna 3.11.0, x"),
            ("attempt 1 as w3 (manual)", "attempt 1 as w12 (manual)"),
            (r#"{"free_megabytes":39804}"#, r#"{"free_megabytes":512}"#),
            (r#"{"one": 0.12, "pid":3}"#, r#"{"one": 1.00, "pid":4711}"#),
            (
                "Xk2mP0aXk2mP0aXk2mP0aXk2mP0aXk2mP0aXk2mP0a_",
                "-k2mP0aXk2mP0aXk2mP0aXk2mP0aXk2mP0aXk2mP0ab",
            ),
        ] {
            assert_eq!(plain(printed), plain(shown), "`{printed}` for `{shown}`");
        }
    }

    #[test]
    fn words_states_and_counts_must_be_the_same() {
        for (shown, printed) in [
            ("a b", "ab"),
            ("a b", "a b c"),
            ("1 run", "2 runs"),
            ("1 run", "2 run"),
            ("RUNS 1 0", "RUNS 1 1"),
            ("attempt 1 ended after 3 ms", "attempt 2 ended after 3 ms"),
            ("exit-1", "exit-2"),
            ("exit code 8", "exit code 1"),
            ("hello  ready", "hello  invalid"),
            ("5s ago", "in 5s"),
            ("5s ago", "-"),
            ("12ms", "12M"),
            ("9M at the peak", "5s at the peak"),
            ("timeout = \"10s\"", "timeout = \"20s\""),
            ("memory = \"64M\"", "memory = \"128M\""),
            ("30 2 * * *", "31 2 * * *"),
            ("hello.sh:2:3", "hello.sh:2:4"),
            ("on 127.0.0.1:8080", "on 127.0.0.1:9640"),
            ("from 127.0.0.1", "from 10.0.0.1"),
            ("HTTP/1.1 204 No Content", "HTTP/1.1 200 No Content"),
            ("today.csv: 2 lines", "today.csv: 3 lines"),
            (r#"{"order": 7}"#, r#"{"order": 8}"#),
            (r#"{"order":41234}"#, r#"{"order":41235}"#),
            ("--port 8081", "--port 8082"),
            ("the price is 3.50", "the price is 3.60"),
            ("lists 10 days", "lists 11 days"),
            ("python  ready", "bash  ready"),
            ("89abcdef", "89abcdef-1"),
            ("sha256:abababababab", "sha1:abababababab"),
        ] {
            assert_ne!(plain(printed), plain(shown), "`{printed}` for `{shown}`");
        }
    }
}
