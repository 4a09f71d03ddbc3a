//! The answer that the caller of a hook gets.

use super::WebhookImport;
use crate::tree::NamedValue;
use toml::Value;

impl WebhookImport {
    /// The answer: the output, or at once the message, while the command runs.
    pub(super) fn answer(&mut self, hook: &NamedValue<'_>, output: bool) {
        if let Some(item) = hook.get("include-command-output-in-response") {
            let note = "a failed run is answered with 500, too, and with the reason";
            match output {
                true => self.report.differs(&item.field(), "", note),
                false => self.report.works(&item.field(), "http.async"),
            }
        }
        if let Some(item) = hook.get("include-command-output-in-response-on-error") {
            let note = "a failed run is answered with 500 and the reason; `response = \"cgi\"` with `Status: 500` and exit 0 answers with text";
            self.report.not_here(&item.field(), note);
        }
        let becomes = if output { "http.response" } else { "http.answer" };
        let status = hook.get("success-http-response-code").and_then(|item| {
            let code = item.text().and_then(|code| code.parse::<u16>().ok());
            let code = code.filter(|code| (200..600).contains(code));
            match code {
                Some(_) => self.report.works(&item.field(), becomes),
                None => self.report.refused(&item.field(), "expected a status from 200 to 599"),
            }
            code
        });
        for header in hook.get("response-headers").iter().flat_map(|item| item.items()) {
            let field = header.named("response-headers");
            let pair = header.text_of("name").zip(header.text_of("value"));
            // A line end in a header would begin another header.
            let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
            match pair.filter(|(name, value)| is_line(name) && is_line(value) && !name.contains(':')) {
                Some(pair) => {
                    self.report.works(&field, becomes);
                    self.headers.push(pair);
                }
                None => self.report.refused(&field, "expected a `name` and a `value`"),
            }
        }
        let message = hook.get("response-message");
        if let Some(item) = &message {
            // webhook answers with the output or with the message.
            self.report.works(&item.field(), if output { "" } else { becomes });
        }
        if output {
            if let Some(code) = status {
                // A CGI script sets the status by a header (RFC 3875, section 6.3.3).
                self.headers.insert(0, ("Status".to_owned(), code.to_string()));
            }
            if !self.headers.is_empty() {
                self.route.push(("response", Value::from("cgi"), None));
            }
            return;
        }
        let mut answer = toml::Table::new();
        // webhook answers with 200 unless the hook says otherwise.
        answer.insert("status".to_owned(), Value::from(i64::from(status.unwrap_or(200))));
        let text = message.as_ref().and_then(NamedValue::text);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            answer.insert("body".to_owned(), Value::from(text));
        }
        let headers = std::mem::take(&mut self.headers).into_iter();
        let headers: toml::Table = headers.map(|(name, value)| (name, Value::from(value))).collect();
        if !headers.is_empty() {
            answer.insert("headers".to_owned(), Value::Table(headers));
        }
        // webhook answers at once, and its command goes on.
        self.route.push(("async", Value::from(true), None));
        let origin = message.map(|item| item.field());
        self.route.push(("answer", Value::Table(answer), origin));
    }
}
