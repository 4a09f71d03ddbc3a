//! `when` and `idempotency`: values at places of a request.

use super::body;
use fnd_manifest::function::route::{Condition, RequestPlace};
use ipnet::IpNet;
use regex_lite::Regex;
use std::net::IpAddr;

/// The facts of a request that conditions look at.
pub struct RequestValues<'a> {
    /// Returns all values of a header, whose name is in lower case.
    pub header: &'a dyn Fn(&str) -> Vec<String>,
    /// The part after the `?`.
    pub query: &'a str,
    /// Media type of the body.
    pub content_type: &'a str,
    /// The whole body, unparsed.
    pub body: &'a [u8],
    /// Address of the caller; absent for a Unix socket.
    pub ip: Option<IpAddr>,
}

impl RequestValues<'_> {
    /// Returns the values at a place, as text; nothing if there is none.
    #[must_use]
    pub fn values(&self, place: &RequestPlace) -> Vec<String> {
        match place {
            RequestPlace::Header(name) => (self.header)(name),
            RequestPlace::Query(name) => body::form(self.query.as_bytes(), name),
            // The names in a form are flat: a dot is part of them.
            RequestPlace::Body(path) if body::is_form(self.content_type) => body::form(self.body, &path.join(".")),
            RequestPlace::Body(path) => body::json(self.body, path),
            // A socket for both versions shows an IPv4 address as `::ffff:192.0.2.1`, which no manifest would name.
            RequestPlace::Ip => self.ip.map(|ip| ip.to_canonical().to_string()).into_iter().collect(),
        }
    }
}

/// Says whether a place is in the body.
#[must_use]
pub fn needs_body(place: &RequestPlace) -> bool {
    matches!(place, RequestPlace::Body(_))
}

/// A condition of `when`, ready to be tested.
#[derive(Debug)]
pub struct Test {
    condition: Condition,
    matches: Option<Regex>,
}

impl Test {
    /// Returns the test of a condition.
    #[must_use]
    pub fn new(condition: &Condition) -> Self {
        let compiled = condition.matches.as_deref().map(Regex::new);
        Self {
            condition: condition.clone(),
            // The judge has checked the expression. Without it the condition would hold for more, so it never holds.
            matches: compiled.map(|regex| regex.unwrap_or_else(|_| never())),
        }
    }

    /// Returns the place that it tests.
    #[must_use]
    pub fn place(&self) -> &RequestPlace {
        &self.condition.place
    }

    /// Says whether the condition holds. A place without a value is none of the values that are asked for, and matches
    /// no expression.
    #[must_use]
    pub fn holds(&self, facts: &RequestValues<'_>) -> bool {
        let Condition { place, is, not, .. } = &self.condition;
        let values = facts.values(place);
        let is_one_of = |listed: &[String]| {
            let same = |value: &String| listed.iter().any(|listed| equal(place, value, listed));
            values.iter().any(same)
        };
        (is.is_empty() || is_one_of(is))
            && !is_one_of(not)
            && self
                .matches
                .as_ref()
                .is_none_or(|regex| values.iter().any(|value| regex.is_match(value)))
    }
}

/// Returns an expression that matches nothing.
fn never() -> Regex {
    Regex::new("$^a").unwrap_or_else(|error| unreachable!("{error}"))
}

/// Says whether a value is a listed one; an address also if it is in a listed network.
fn equal(place: &RequestPlace, value: &str, listed: &str) -> bool {
    if *place != RequestPlace::Ip {
        return value == listed;
    }
    let Ok(address) = value.parse::<IpAddr>() else {
        return false;
    };
    match listed.parse::<IpNet>() {
        Ok(network) => network.contains(&address),
        Err(_) => listed.parse() == Ok(address),
    }
}

/// Returns the idempotency key of a request: the first value at a place. Nothing if the place has no value.
#[must_use]
pub fn key(facts: &RequestValues<'_>, place: &RequestPlace) -> Option<String> {
    facts.values(place).into_iter().next().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a condition holds for a push of GitHub.
    fn holds(place: &str, is: &[&str], not: &[&str], matches: Option<&str>) -> bool {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let test = Test::new(&Condition {
            place: RequestPlace::parse(place).unwrap(),
            is: texts(is),
            not: texts(not),
            matches: matches.map(str::to_owned),
        });
        let header = |name: &str| match name {
            "x-github-event" => vec!["push".to_owned()],
            "x-list" => vec!["a".to_owned(), "b".to_owned()],
            _ => Vec::new(),
        };
        test.holds(&RequestValues {
            header: &header,
            query: "dry=1&dry=2&e=",
            content_type: "application/json",
            body: br#"{"ref": "refs/heads/main", "user": {"name": "bot-7"}, "labels": ["x", "y"]}"#,
            ip: Some("192.0.2.7".parse().unwrap()),
        })
    }

    #[test]
    fn a_value_is_one_of_the_listed() {
        assert!(holds("header.x-github-event", &["push"], &[], None));
        assert!(holds("header.x-github-event", &["ping", "push"], &[], None));
        assert!(!holds("header.x-github-event", &["pus", "PUSH"], &[], None));
        assert!(holds("header.x-list", &["b"], &[], None));
        assert!(holds("body.ref", &["refs/heads/main", "refs/heads/release"], &[], None));
        assert!(holds("body.labels", &["y"], &[], None));
        assert!(holds("query.dry", &["2"], &[], None));
        assert!(holds("query.e", &[""], &[], None));
        assert!(!holds("header.absent", &[""], &[], None));
    }

    #[test]
    fn a_value_is_none_of_the_listed_and_matches() {
        assert!(!holds("query.dry", &[], &["1"], None));
        assert!(holds("query.dry", &[], &["3"], None));
        assert!(holds("query.absent", &[], &["1"], None), "no value is not that value");
        assert!(holds("body.user.name", &[], &[], Some("^bot-")));
        assert!(!holds("body.user.name", &[], &[], Some("^bot$")));
        assert!(
            !holds("body.user.absent", &[], &[], Some("")),
            "no value matches nothing"
        );
        assert!(!holds("body.user.name", &[], &["bot-7"], Some("^bot-")));
        assert!(
            !holds("body.ref", &[], &[], Some("(")),
            "an expression that is none holds for nothing"
        );
    }

    #[test]
    fn an_address_is_in_a_network() {
        assert!(holds("ip", &["192.0.2.0/24"], &[], None));
        assert!(holds("ip", &["192.0.2.7"], &[], None));
        assert!(!holds("ip", &["192.0.3.0/24", "2001:db8::/32"], &[], None));
        assert!(!holds("ip", &[], &["192.0.0.0/8"], None));
        assert!(holds("ip", &[], &[], Some("^192[.]")));
    }

    #[test]
    fn a_key_is_the_first_value() {
        let header = |_: &str| Vec::new();
        let facts = |body| RequestValues {
            header: &header,
            query: "id=7",
            content_type: "application/x-www-form-urlencoded",
            body,
            ip: None,
        };
        let at = |place: &str, body| key(&facts(body), &RequestPlace::parse(place).unwrap());
        assert_eq!(at("query.id", b"").as_deref(), Some("7"));
        assert_eq!(at("body.id", b"id=8&id=9").as_deref(), Some("8"));
        assert_eq!(at("body.id", b"id="), None);
        assert_eq!(at("ip", b""), None);
    }
}
