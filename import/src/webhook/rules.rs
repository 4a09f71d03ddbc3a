//! `trigger-rule`: as credentials, as conditions of the route, and what is left as conditions of the script.

use super::values::{Needs, place, word};
use crate::script::quoted;
use crate::tree::NamedValue;
use fnd_manifest::foreign::{ConversionReport, Field};
use std::collections::BTreeMap;
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
            "or" | "not" => match expression(rule, needs) {
                Ok(expression) => {
                    report.differs(
                        &part.field(),
                        "entry",
                        "the script tests it, and then ends with success",
                    );
                    self.script.push(expression);
                }
                Err(why) => report.refused(&part.field(), &why),
            },
            // Without its rule, the hook would run for everybody.
            _ => report.refused(
                &rule.named("trigger-rule"),
                "a rule is one of `and`, `or`, `not` and `match`",
            ),
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
            "ip-whitelist" => {
                let ranges = rule.text_of("ip-range").unwrap_or_default();
                let ranges: Vec<Value> = ranges.split_whitespace().map(Value::from).collect();
                if ranges.is_empty() {
                    return report.refused(&field, "`ip-range` is missing");
                }
                self.insert("ip".to_owned(), Value::Array(ranges), &field, report);
            }
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
                None => match matched(rule, needs) {
                    Ok(expression) => {
                        report.differs(&field, "entry", "the script tests it, and then ends with success");
                        self.script.push(expression);
                    }
                    Err(why) => report.refused(&field, &why),
                },
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

    /// `or` of values in one place: a list.
    fn listed(&mut self, rule: &NamedValue<'_>, report: &mut ConversionReport) -> bool {
        let mut values = Vec::new();
        let mut places = Vec::new();
        for part in rule.items() {
            let Some(part) = part
                .get("match")
                .filter(|part| part.text_of("type").as_deref() == Some("value"))
            else {
                return false;
            };
            let (Some(place), Some(value)) = (part.get("parameter").as_ref().and_then(place), part.text_of("value"))
            else {
                return false;
            };
            // A credential is no condition.
            if place == "header.x-gitlab-token" || place == "header.authorization" {
                return false;
            }
            places.push(place);
            values.push(Value::from(value));
        }
        places.dedup();
        match <[String; 1]>::try_from(places) {
            Ok([place]) if !self.when.contains_key(&place) => {
                self.insert(place, Value::Array(values), &rule.field(), report);
                true
            }
            _ => false,
        }
    }

    /// `not` of a value: `{ not = "VALUE" }`.
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
        let not = [("not".to_owned(), Value::from(value))].into_iter().collect();
        self.insert(place, Value::Table(not), &rule.field(), report);
        true
    }
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

/// Returns a rule as a condition of bash.
fn expression(rule: &NamedValue<'_>, needs: &mut Needs) -> Result<String, String> {
    nested(rule, needs, DEPTH_MAX)
}

fn nested(rule: &NamedValue<'_>, needs: &mut Needs, depth: usize) -> Result<String, String> {
    let depth = depth.checked_sub(1).ok_or("the rule is nested too deeply")?;
    let found = rule.items();
    let [part] = found.as_slice() else {
        return Err("a rule is one of `and`, `or`, `not` and `match`".to_owned());
    };
    let joined = |with: &str, needs: &mut Needs| {
        let parts: Result<Vec<String>, String> = part.items().iter().map(|rule| nested(rule, needs, depth)).collect();
        match parts?.join(with) {
            empty if empty.is_empty() => Err("a rule is empty".to_owned()),
            // With braces, because `&&` and `||` have the same precedence in bash.
            parts => Ok(format!("{{ {parts}; }}")),
        }
    };
    match part.key {
        "and" => joined(" && ", needs),
        "or" => joined(" || ", needs),
        "not" => nested(part, needs, depth).map(|rule| format!("! {rule}")),
        "match" => matched(part, needs),
        _ => Err(format!("webhook has no rule `{}`", part.key)),
    }
}

fn matched(rule: &NamedValue<'_>, needs: &mut Needs) -> Result<String, String> {
    let parameter = rule.get("parameter").ok_or("`parameter` is missing")?;
    match (rule.text_of("type").as_deref(), rule.text_of("value")) {
        // A quoted right side of `==` is a text for bash, and no pattern.
        (Some("value"), Some(value)) => Ok(format!("[[ {} == {} ]]", word(&parameter, needs)?, quoted(&value))),
        _ => Err("only `value` can be tested by the script; put what always holds at the top of the rule, or test it yourself".to_owned()),
    }
}
