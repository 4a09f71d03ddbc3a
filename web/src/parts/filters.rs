//! The filters of a page, and the addresses that contain them.

use crate::api::Failure;
use crate::http::Request;
use crate::parts::actions::quoted;
use fnd_client::client::encode;
use fnd_wire::ids::FunctionName;
use jiff::Timestamp;
use maud::{Markup, html};

/// Parameters of an address. A parameter without a value is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(&'static str, String)>);

impl Query {
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name, value));
        }
        self
    }

    /// Adds a parameter that a request has.
    #[must_use]
    pub(crate) fn of(self, name: &'static str, request: &Request) -> Self {
        self.with(name, request.query(name).unwrap_or_default())
    }

    /// Returns an address with the parameters.
    pub(crate) fn after(&self, path: &str) -> String {
        let mut address = path.to_owned();
        for (place, (name, value)) in self.0.iter().enumerate() {
            address.push(if place == 0 { '?' } else { '&' });
            address.push_str(&format!("{name}={}", encode(value)));
        }
        address
    }

    /// Returns the options of `fndctl` for the parameters, each with a space before it; the function has no option.
    pub(crate) fn options(&self) -> String {
        let option = |(name, value): &(&str, String)| {
            let value = quoted(value);
            if *name == "function" {
                format!(" {value}")
            } else {
                format!(" --{name} {value}")
            }
        };
        self.0.iter().map(option).collect()
    }
}

/// Returns the value of a filter that is a word of a list.
///
/// # Errors
/// It is none of them.
pub(crate) fn word<'a>(request: &'a Request, name: &str, words: &[&str]) -> Result<Option<&'a str>, Failure> {
    match request.query(name) {
        Some(word) if !words.contains(&word) => Err(Failure::bad_request(format!(
            "The filter `{name}` has one of these words: {}; not `{word}`.",
            words.join(", ")
        ))),
        word => Ok(word),
    }
}

/// Returns the value of the filter `function`.
///
/// # Errors
/// No function can have this name.
pub(crate) fn function(request: &Request) -> Result<Option<&str>, Failure> {
    match request.query("function") {
        Some(name) if FunctionName::new(name).is_err() => {
            Err(Failure::bad_request(format!("No function can have the name `{name}`.")))
        }
        name => Ok(name),
    }
}

/// Returns the value of a filter that is an instant, in the form of the API. A browser
/// without script sends `2026-11-21T08:00`, which is UTC.
///
/// # Errors
/// It is none.
pub(crate) fn instant(request: &Request, name: &str) -> Result<Option<String>, Failure> {
    let Some(text) = request.query(name) else {
        return Ok(None);
    };
    let whole = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
    match whole.iter().find_map(|text| text.parse::<Timestamp>().ok()) {
        Some(instant) => Ok(Some(instant.to_string())),
        None => Err(Failure::bad_request(format!(
            "The filter `{name}` is an instant such as `2026-11-21T08:00`, in UTC; not `{text}`."
        ))),
    }
}

/// Returns the value of a number in the query.
///
/// # Errors
/// It is none.
pub(crate) fn count(request: &Request, name: &str) -> Result<usize, Failure> {
    let Some(text) = request.query(name) else { return Ok(0) };
    text.parse()
        .map_err(|_| Failure::bad_request(format!("`{name}` is a number, not `{text}`.")))
}

/// Returns a choice of words with a label; the first one is none.
pub(crate) fn choice(name: &str, label: &str, words: &[&str], chosen: Option<&str>) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" { "all" }
                @for word in words { option value=(word) selected[chosen == Some(*word)] { (word) } }
            }
        }
    }
}

/// Returns a field of text with a label.
pub(crate) fn field(name: &str, label: &str, kind: &str, value: Option<&str>) -> Markup {
    html! {
        label { span { (label) } input name=(name) type=(kind) value=[value] autocomplete="off"; }
    }
}

/// Returns the box "Search".
pub(crate) fn search(value: Option<&str>) -> Markup {
    field("q", "Search", "search", value)
}

/// Returns a link to the next part of a list.
pub(crate) fn further(label: &str, address: Option<String>) -> Markup {
    html! { @if let Some(address) = address { p { a.button rel="next" href=(address) { (label) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;

    fn request(query: &str) -> Request {
        Request::new(Method::Get, "/history", query, b"")
    }

    #[test]
    fn a_filter_is_a_word_of_its_list() {
        let words = ["queued", "failed"];
        let of = |query| word(&request(query), "state", &words).map(|word| word.map(str::to_owned));
        assert_eq!(of("state=failed").unwrap().as_deref(), Some("failed"));
        assert_eq!(of("state=").unwrap(), None);
        let refused = of("state=x").unwrap_err();
        assert_eq!(refused.status(), 400);
        assert!(
            format!("{refused:?}").contains("queued, failed; not `x`"),
            "{refused:?}"
        );
    }

    #[test]
    fn an_instant_without_a_zone_is_utc() {
        for (query, expected) in [
            ("since=2026-11-21T08:00", Some("2026-11-21T08:00:00Z")),
            ("since=2026-11-21T08:00:30", Some("2026-11-21T08:00:30Z")),
            ("since=2026-11-21T08:00:00.5Z", Some("2026-11-21T08:00:00.5Z")),
            ("since=2026-11-21T08:00:00%2B01:00", Some("2026-11-21T07:00:00Z")),
            ("", None),
        ] {
            assert_eq!(instant(&request(query), "since").unwrap().as_deref(), expected);
        }
        assert_eq!(instant(&request("since=yesterday"), "since").unwrap_err().status(), 400);
        assert_eq!(count(&request("before=1000"), "before").unwrap(), 1000);
        assert!(count(&request("before=-1"), "before").is_err());
        assert_eq!(function(&request("function=web%2Fa")).unwrap(), Some("web/a"));
        assert_eq!(function(&request("function=A+B")).unwrap_err().status(), 400);
    }

    #[test]
    fn an_address_contains_the_filters_that_are_set() {
        let query = Query::default()
            .of("function", &request("function=web%2Fa&state="))
            .of("state", &request("state="));
        assert_eq!(query.after("/history"), "/history?function=web%2Fa");
        assert_eq!(query.with("until", "a b").options(), " web/a --until 'a b'");
        assert_eq!(Query::default().after("/"), "/");
    }
}
