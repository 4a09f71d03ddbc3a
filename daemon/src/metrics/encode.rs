//! Writes metrics as text in two forms: OpenMetrics, and the older one of Prometheus, which the node exporter's text
//! files use.

use prometheus_client::registry::Registry;

/// A form of metrics as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Older,
}

impl MetricsFormat {
    /// Returns the form that an `Accept` header asks for: OpenMetrics if the header names it at all, since only clients
    /// that understand it name it.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let named = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let wanted = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
            // A quality of 0 means "not acceptable" (RFC 9110, section 12.4.2).
            wanted && !parts.any(|part| matches!(part.strip_prefix("q="), Some("0" | "0.0" | "0.00" | "0.000")))
        });
        if named { Self::OpenMetrics } else { Self::Older }
    }

    /// Returns its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Older => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes all metrics as text.
pub(crate) fn write(registry: &Registry, form: MetricsFormat) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    match form {
        MetricsFormat::OpenMetrics => text,
        MetricsFormat::Older => older(&text),
    }
}

/// Converts OpenMetrics to the older form: there a counter's name ends in `_total` in its comments too, information is
/// a gauge, and there is no line for units or the end.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // `# HELP` comes before `# TYPE`, which decides the metric's name.
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = line;
            continue;
        }
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.rsplit_once(' ')) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        let text = help.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let text = text.map_or("", |(_, text)| text);
        out.push_str(&format!("# HELP {name}{suffix} {text}\n# TYPE {name}{suffix} {kind}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_is_asked_for() {
        for (accept, form) in [
            ("", MetricsFormat::Older),
            ("*/*", MetricsFormat::Older),
            ("text/plain", MetricsFormat::Older),
            ("application/openmetrics-text", MetricsFormat::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
                MetricsFormat::OpenMetrics,
            ),
            ("application/openmetrics-text;q=0, text/plain", MetricsFormat::Older),
        ] {
            assert_eq!(MetricsFormat::accepted(accept), form, "{accept}");
        }
    }

    #[test]
    fn the_older_form_names_what_it_says() {
        let text = "# HELP a_b Counts.\n# TYPE a_b counter\n# UNIT a_b b\na_b_total{x=\"1\"} 3\n# HELP fnd V.\n# TYPE fnd info\n\
                    fnd_info{version=\"1\"} 1\n# HELP g G.\n# TYPE g gauge\ng 0.5\n# EOF\n";
        let expected = "# HELP a_b_total Counts.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 3\n# HELP fnd_info V.\n\
                        # TYPE fnd_info gauge\nfnd_info{version=\"1\"} 1\n# HELP g G.\n# TYPE g gauge\ng 0.5\n";
        assert_eq!(older(text), expected);
    }
}
