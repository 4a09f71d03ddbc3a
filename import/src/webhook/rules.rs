//! `trigger-rule`: as credentials, as conditions of the route, and what is left as conditions of the script.

use super::values::{HookValue, Needs, place, value};
use crate::script::quoted;
use crate::tree::NamedValue;
use fnd_manifest::foreign::{ConversionReport, Field};
use std::collections::BTreeMap;
use std::net::IpAddr;
use toml::Value;

/// The parts of a function that a rule becomes.
#[derive(Debug, Default)]
pub(super) struct WebhookRules {
    /// The credential: its form, and the secret's value.
    pub(super) auth: Option<(&'static str, String, Field)>,
    /// Conditions of the route.
    pub(super) when: BTreeMap<String, (Value, Field)>,
    /// Conditions of the script.
    pub(super) script: Vec<String>,
}

impl WebhookRules {
    /// Takes a rule over that must hold.
    pub(super) fn add(&mut self, rule: &NamedValue<'_>, report: &mut ConversionReport, needs: &mut Needs) {
        let found = rule.items();
        let [part] = found.as_slice() else {
            return report.refused(
                &rule.named("trigger-rule"),
                "a rule is one of `and`, `or`, `not` and `match`",
            );
        };
        match part.key {
            "and" => part.items().iter().for_each(|rule| self.add(rule, report, needs)),
            "match" => self.condition(part, report, needs),
            "or" if self.listed(part, report) => {}
            "not" if self.negated(part, report) => {}
            "or" | "not" => self.tested(expression(rule, needs), &part.field(), report),
            // Without its rule, the hook would run for everybody.
            _ => report.refused(
                &rule.named("trigger-rule"),
                "a rule is one of `and`, `or`, `not` and `match`",
            ),
        }
    }

    /// Adds a condition of the script.
    fn tested(&mut self, expression: Result<String, String>, field: &Field, report: &mut ConversionReport) {
        match expression {
            Ok(expression) => {
                report.differs(field, "entry", "the script tests it, and then ends with success");
                self.script.push(expression);
            }
            Err(why) => report.refused(field, &why),
        }
    }

    fn condition(&mut self, rule: &NamedValue<'_>, report: &mut ConversionReport, needs: &mut Needs) {
        let field = rule.field();
        let parameter = rule.get("parameter");
        let header = parameter.filter(|parameter| parameter.text_of("source").as_deref() == Some("header"));
        let header = header
            .and_then(|parameter| parameter.text_of("name"))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let kind = rule.text_of("type").unwrap_or_default();
        match kind.as_str() {
            "payload-hmac-sha256" | "payload-hash-sha256" => {
                let scheme = match header.as_str() {
                    "x-hub-signature-256" => "github",
                    "x-gitea-signature" => "gitea",
                    _ => {
                        let why = format!(
                            "no form of `auth` has its signature in `{header}`: GitHub sends `X-Hub-Signature-256`, Gitea `X-Gitea-Signature`; \
                             for others leave webhook in front"
                        );
                        return report.refused(&field, &why);
                    }
                };
                self.credential(scheme, rule.text_of("secret"), &field, report);
            }
            "payload-hmac-sha1" | "payload-hash-sha1" | "payload-hmac-sha512" | "payload-hash-sha512" => {
                let why = "fnd checks SHA-256 only: GitHub, Gitea and Bitbucket send it, too, in `X-Hub-Signature-256`; choose that header";
                report.refused(&field, why);
            }
            "scalr-signature" => report.refused(&field, "fnd does not know Scalr's signature: leave webhook in front"),
            "ip-whitelist" => self.addresses(&[*rule], &field, report),
            // As a credential the token is a secret of fnd. As a condition it would stand in the manifest.
            "value" if header == "x-gitlab-token" => self.credential("gitlab", rule.text_of("value"), &field, report),
            "value" if header == "authorization" => {
                let value = rule.text_of("value").unwrap_or_default();
                match value.strip_prefix("Bearer ") {
                    Some(token) => self.credential("token", Some(token.to_owned()), &field, report),
                    None => report.refused(
                        &field,
                        "of `Authorization`, `auth` has `token` (`Bearer`) and `basic`: set it yourself",
                    ),
                }
            }
            "value" | "regex" => match parameter.as_ref().and_then(place) {
                Some(place) => match condition(rule, &kind) {
                    Ok(value) => self.insert(place, value, &field, report),
                    Err(why) => report.refused(&field, &why),
                },
                None => self.tested(matched(rule, needs), &field, report),
            },
            _ => report.refused(&field, &format!("`{kind}` is no type of a match")),
        }
    }

    fn credential(
        &mut self,
        scheme: &'static str,
        secret: Option<String>,
        field: &Field,
        report: &mut ConversionReport,
    ) {
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            return report.refused(field, "the secret is missing");
        };
        if self.auth.is_some() {
            return report.refused(field, "fnd wants one credential of several, and this rule wants all");
        }
        report.works(field, "http.auth");
        self.auth = Some((scheme, secret, field.clone()));
    }

    /// Adds a condition of the route. A place has one.
    fn insert(&mut self, place: String, value: Value, field: &Field, report: &mut ConversionReport) {
        if self.when.contains_key(&place) {
            return report.refused(
                field,
                &format!("`when` has one condition for `{place}`: test the second one in the script"),
            );
        }
        report.works(field, &format!("http.when.{place}"));
        self.when.insert(place, (value, field.clone()));
    }

    /// `ip-whitelist`, or an `or` of several: a list of addresses and networks.
    fn addresses(&mut self, rules: &[NamedValue<'_>], field: &Field, report: &mut ConversionReport) {
        let mut ranges: Vec<Value> = Vec::new();
        for rule in rules {
            let range = rule.text_of("ip-range").unwrap_or_default();
            if range.trim().is_empty() {
                return report.refused(&rule.field(), "`ip-range` is missing");
            }
            if let Some(wrong) = range.split_whitespace().find(|range| !is_network(range)) {
                return report.refused(&rule.field(), &format!("`{wrong}` is no address and no network"));
            }
            ranges.extend(range.split_whitespace().map(Value::from));
        }
        self.insert("ip".to_owned(), Value::Array(ranges), field, report);
    }

    /// `or` of values and expressions in one place, or of addresses: one condition.
    fn listed(&mut self, rule: &NamedValue<'_>, report: &mut ConversionReport) -> bool {
        let mut values = Vec::new();
        let mut places = Vec::new();
        let parts: Vec<NamedValue<'_>> = rule.items().iter().filter_map(|part| part.get("match")).collect();
        if parts.is_empty() || parts.len() < rule.items().len() {
            return false;
        }
        let kind = |part: &NamedValue<'_>| part.text_of("type").unwrap_or_default();
        if parts.iter().all(|part| kind(part) == "ip-whitelist") {
            self.addresses(&parts, &rule.field(), report);
            return true;
        }
        for part in parts {
            let kind = kind(&part);
            if kind != "value" && kind != "regex" {
                return false;
            }
            let (Some(place), Some(text)) = (part.get("parameter").as_ref().and_then(place), part.text_of(&kind))
            else {
                return false;
            };
            // A credential is no condition.
            if place == "header.x-gitlab-token" || place == "header.authorization" {
                return false;
            }
            places.push(place);
            values.push((kind == "value", text));
        }
        places.dedup();
        match <[String; 1]>::try_from(places) {
            Ok([place]) if !self.when.contains_key(&place) => {
                self.insert(place, one_of(&values), &rule.field(), report);
                true
            }
            _ => false,
        }
    }

    /// `not` of a value: `{ not = "VALUE", matches = "^" }`.
    fn negated(&mut self, rule: &NamedValue<'_>, report: &mut ConversionReport) -> bool {
        let part = rule
            .get("match")
            .filter(|part| part.text_of("type").as_deref() == Some("value"));
        let place = part.and_then(|part| part.get("parameter")).as_ref().and_then(place);
        let value = part.and_then(|part| part.text_of("value"));
        let (Some(place), Some(value)) = (place, value) else {
            return false;
        };
        if self.when.contains_key(&place) {
            return false;
        }
        // For webhook a rule about a value that the request does not have fails, also below `not`. The expression fits every
        // value, and no missing one.
        let not = [("not", value.as_str()), ("matches", "^")];
        let not = not
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect();
        self.insert(place, Value::Table(not), &rule.field(), report);
        true
    }
}

/// Returns the condition that one of several holds: values, for which the first of a pair is true, or expressions.
fn one_of(values: &[(bool, String)]) -> Value {
    if values.iter().all(|(is_value, _)| *is_value) {
        return Value::Array(values.iter().map(|(_, text)| Value::from(text.as_str())).collect());
    }
    let part = |(is_value, text): &(bool, String)| {
        if *is_value {
            format!("^{}$", escaped(text))
        } else {
            format!("(?:{text})")
        }
    };
    let all: Vec<String> = values.iter().map(part).collect();
    Value::Table(
        [("matches".to_owned(), Value::from(all.join("|")))]
            .into_iter()
            .collect(),
    )
}

/// Returns an expression that fits a text only.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns the condition of a match.
fn condition(rule: &NamedValue<'_>, kind: &str) -> Result<Value, String> {
    if kind == "value" {
        return rule
            .text_of("value")
            .map(Value::from)
            .ok_or_else(|| "`value` is missing".to_owned());
    }
    let regex = rule.text_of("regex").ok_or("`regex` is missing")?;
    Ok(Value::Table(
        [("matches".to_owned(), Value::from(regex))].into_iter().collect(),
    ))
}

/// The deepest nesting of a rule that a script tests.
const DEPTH_MAX: usize = 16;

/// Returns a rule as a condition of bash. As in webhook, a value that the request does not have makes the whole rule fail, but
/// for the other parts of an `or`: `$missing` says so.
fn expression(rule: &NamedValue<'_>, needs: &mut Needs) -> Result<String, String> {
    nested(rule, needs, DEPTH_MAX)
}

fn nested(rule: &NamedValue<'_>, needs: &mut Needs, depth: usize) -> Result<String, String> {
    let depth = depth.checked_sub(1).ok_or("the rule is nested too deeply")?;
    let found = rule.items();
    let [part] = found.as_slice() else {
        return Err("a rule is one of `and`, `or`, `not` and `match`".to_owned());
    };
    let parts = |needs: &mut Needs| {
        let parts: Result<Vec<String>, String> = part.items().iter().map(|rule| nested(rule, needs, depth)).collect();
        let parts = parts?;
        if parts.is_empty() {
            return Err("a rule is empty".to_owned());
        }
        Ok(parts)
    };
    match part.key {
        // With braces, because `&&` and `||` have the same precedence in bash.
        "and" => Ok(format!(
            "{{ {} && [[ -z $missing ]]; }}",
            parts(needs)?.join(" && [[ -z $missing ]] && ")
        )),
        "or" => Ok(format!(
            "if {}; then missing=; else ! missing=; fi",
            parts(needs)?.join(" || ! missing= || ")
        )),
        "not" => nested(part, needs, depth).map(|rule| format!("! {rule}")),
        "match" => matched(part, needs),
        _ => Err(format!("webhook has no rule `{}`", part.key)),
    }
}

fn matched(rule: &NamedValue<'_>, needs: &mut Needs) -> Result<String, String> {
    if rule.text_of("type").as_deref() == Some("ip-whitelist") {
        return Err(
            "a script cannot test addresses: `ip-whitelist` stands alone, in an `and`, or in an `or` of its own"
                .to_owned(),
        );
    }
    let parameter = rule.get("parameter").ok_or("`parameter` is missing")?;
    let (Some("value"), Some(expected)) = (rule.text_of("type").as_deref(), rule.text_of("value")) else {
        return Err("only `value` can be tested by the script: put what always holds into an `and` at the top of the rule, and test the rest in the script".to_owned());
    };
    // A quoted right side of `==` is a text for bash, and no pattern.
    let expected = quoted(&expected);
    Ok(match value(&parameter, needs)? {
        HookValue::Word(word) => format!("[[ {word} == {expected} ]]"),
        HookValue::Command(command) => format!("{{ {{ {command} || ! missing=1; }} && [[ $REPLY == {expected} ]]; }}"),
    })
}

/// Says whether a text is an address, or a network such as `192.0.2.0/24`.
fn is_network(text: &str) -> bool {
    let (address, prefix) = text
        .split_once('/')
        .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    prefix.is_none_or(|prefix| prefix.parse::<u8>().is_ok_and(|prefix| prefix <= most))
}
