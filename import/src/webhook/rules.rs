//! `trigger-rule`: as credentials, as conditions of the route, and what is left as conditions of the script.

use super::WebhookImport;
use super::values::{HookValue, Needs, place, value};
use crate::rows::{refuse, table};
use crate::script::quoted;
use crate::tree::NamedValue;
use fnd_manifest::foreign::Field;
use std::collections::BTreeMap;
use std::net::IpAddr;
use toml::Value;

/// Why another rule is refused.
const RULE: &str = "a rule is one of `and`, `or`, `not` and `match`";

/// The difference of a hook with a signature.
const SIGNED: &str = "the header has one signature in its sender's form; webhook also takes others, such as bare hex or several, which get 401 here";

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

impl WebhookImport {
    /// Takes a rule over that must hold.
    pub(super) fn rule(&mut self, rule: &NamedValue<'_>) {
        let found = rule.items();
        let [part] = found.as_slice() else {
            return self.report.refused(&rule.named("trigger-rule"), RULE);
        };
        let field = part.field();
        let taken = match part.key {
            "and" => return part.items().iter().for_each(|rule| self.rule(rule)),
            "match" => self.condition(part, &field),
            "or" if self.listed(part) => Ok(()),
            "not" if self.negated(part) => Ok(()),
            "or" | "not" => {
                let expression = expression(rule, &mut self.needs, DEPTH_MAX);
                expression.map(|expression| self.tested(expression, &field))
            }
            // Without its rule, the hook would run for everybody.
            _ => return self.report.refused(&rule.named("trigger-rule"), RULE),
        };
        refuse(&mut self.report, taken, &field);
    }

    /// Adds a condition of the script.
    fn tested(&mut self, expression: String, field: &Field) {
        let note = "the script tests it, and then ends with success";
        self.report.differs(field, "entry", note);
        self.rules.script.push(expression);
    }

    fn condition(&mut self, rule: &NamedValue<'_>, field: &Field) -> Result<(), String> {
        let parameter = rule.get("parameter");
        let header = parameter.filter(|parameter| parameter.text_of("source").as_deref() == Some("header"));
        let header = header.and_then(|parameter| parameter.text_of("name"));
        let header = header.unwrap_or_default().to_ascii_lowercase();
        let kind = rule.text_of("type").unwrap_or_default();
        match kind.as_str() {
            "payload-hmac-sha256" | "payload-hash-sha256" => {
                let scheme = match header.as_str() {
                    "x-hub-signature-256" => "github",
                    "x-gitea-signature" => "gitea",
                    _ => {
                        return Err(format!(
                            "no form of `auth` has its signature in `{header}`: GitHub sends `X-Hub-Signature-256`, Gitea `X-Gitea-Signature`; \
                             for others leave webhook in front"
                        ));
                    }
                };
                self.credential(scheme, rule.text_of("secret"), field, SIGNED)
            }
            "payload-hmac-sha1" | "payload-hash-sha1" | "payload-hmac-sha512" | "payload-hash-sha512" => {
                Err("fnd checks SHA-256 only: GitHub, Gitea and Bitbucket send it, too, in `X-Hub-Signature-256`; choose that header".to_owned())
            }
            "scalr-signature" => Err("fnd does not know Scalr's signature: leave webhook in front".to_owned()),
            "ip-whitelist" => {
                self.addresses(&[*rule], field);
                Ok(())
            }
            // As a credential the token is a secret of fnd. As a condition it would stand in the manifest.
            "value" if header == "x-gitlab-token" => self.credential("gitlab", rule.text_of("value"), field, ""),
            "value" if header == "authorization" => {
                let why = "of `Authorization`, `auth` has `token` (`Bearer`) and `basic`: set it yourself";
                let value = rule.text_of("value").unwrap_or_default();
                let token = value.strip_prefix("Bearer ").ok_or(why)?;
                self.credential("token", Some(token.to_owned()), field, "")
            }
            "value" | "regex" => match parameter.as_ref().and_then(place) {
                Some(place) => self.insert(place, condition(rule, &kind)?, field),
                None => matched(rule, &mut self.needs).map(|expression| self.tested(expression, field)),
            },
            _ => Err(format!("`{kind}` is no type of a match")),
        }
    }

    fn credential(
        &mut self,
        scheme: &'static str,
        secret: Option<String>,
        field: &Field,
        note: &str,
    ) -> Result<(), String> {
        let secret = secret.filter(|secret| !secret.is_empty());
        let secret = secret.ok_or("the secret is missing")?;
        if self.rules.auth.is_some() {
            return Err("fnd wants one credential of several, and this rule wants all".to_owned());
        }
        match note {
            "" => self.report.works(field, "http.auth"),
            _ => self.report.differs(field, "http.auth", note),
        }
        self.rules.auth = Some((scheme, secret, field.clone()));
        Ok(())
    }

    /// Adds a condition of the route. A place has one.
    fn insert(&mut self, place: String, value: Value, field: &Field) -> Result<(), String> {
        if self.rules.when.contains_key(&place) {
            return Err(format!(
                "`when` has one condition for `{place}`: test the second one in the script"
            ));
        }
        self.report.works(field, &format!("http.when.{place}"));
        self.rules.when.insert(place, (value, field.clone()));
        Ok(())
    }

    /// `ip-whitelist`, or an `or` of several: a list of addresses and networks.
    fn addresses(&mut self, rules: &[NamedValue<'_>], field: &Field) {
        let mut ranges: Vec<Value> = Vec::new();
        for rule in rules {
            let range = rule.text_of("ip-range").unwrap_or_default();
            if range.trim().is_empty() {
                return self.report.refused(&rule.field(), "`ip-range` is missing");
            }
            if let Some(wrong) = range.split_whitespace().find(|range| !is_network(range)) {
                let why = format!("`{wrong}` is no address and no network");
                return self.report.refused(&rule.field(), &why);
            }
            ranges.extend(range.split_whitespace().map(Value::from));
        }
        let inserted = self.insert("ip".to_owned(), Value::Array(ranges), field);
        refuse(&mut self.report, inserted, field);
    }

    /// `or` of values and expressions in one place, or of addresses: one condition.
    fn listed(&mut self, rule: &NamedValue<'_>) -> bool {
        let mut values = Vec::new();
        let mut places = Vec::new();
        let parts: Vec<NamedValue<'_>> = rule.items().iter().filter_map(|part| part.get("match")).collect();
        if parts.is_empty() || parts.len() < rule.items().len() {
            return false;
        }
        let kind = |part: &NamedValue<'_>| part.text_of("type").unwrap_or_default();
        if parts.iter().all(|part| kind(part) == "ip-whitelist") {
            self.addresses(&parts, &rule.field());
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
            Ok([place]) => self.insert(place, one_of(&values), &rule.field()).is_ok(),
            Err(_) => false,
        }
    }

    /// `not` of a value: `{ not = "VALUE", matches = "^" }`.
    fn negated(&mut self, rule: &NamedValue<'_>) -> bool {
        let part = rule
            .get("match")
            .filter(|part| part.text_of("type").as_deref() == Some("value"));
        let place = part.and_then(|part| part.get("parameter")).as_ref().and_then(place);
        let value = part.and_then(|part| part.text_of("value"));
        let (Some(place), Some(value)) = (place, value) else {
            return false;
        };
        // For webhook a rule about a value that the request does not have fails, also below `not`. The expression fits every
        // value, and no missing one.
        let not = table([("not", value.as_str()), ("matches", "^")]);
        self.insert(place, not, &rule.field()).is_ok()
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
    table([("matches", all.join("|").as_str())])
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
    Ok(table([("matches", regex.as_str())]))
}

/// The deepest nesting of a rule that a script tests.
const DEPTH_MAX: usize = 16;

/// Returns a rule as a condition of bash. As in webhook, a value that the request does not have makes the whole rule fail, but
/// for the other parts of an `or`: `$missing` says so.
fn expression(rule: &NamedValue<'_>, needs: &mut Needs, depth: usize) -> Result<String, String> {
    let depth = depth.checked_sub(1).ok_or("the rule is nested too deeply")?;
    let found = rule.items();
    let [part] = found.as_slice() else {
        return Err(RULE.to_owned());
    };
    let parts = |needs: &mut Needs| {
        let parts: Result<Vec<String>, String> =
            part.items().iter().map(|rule| expression(rule, needs, depth)).collect();
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
        "not" => expression(part, needs, depth).map(|rule| format!("! {rule}")),
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
