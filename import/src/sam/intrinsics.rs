//! Intrinsic functions of CloudFormation: `!Ref`, `!Sub` and others, in their short and their long form. One whose value only
//! AWS knows stays as it is; the reader of its key refuses it by name.

use crate::tree::NamedValue;
use fnd_manifest::foreign::yaml::{Value, YamlNode};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The region that functions are told, unless `[env]` says otherwise.
pub(super) const REGION: &str = "us-east-1";
/// The account in the ARN that functions are told.
pub(super) const ACCOUNT: &str = "000000000000";

/// The names with a value of AWS's own that `--parameter` may give a value.
pub(super) const PSEUDO_PARAMETERS: [&str; 4] = ["AWS::AccountId", "AWS::Region", "AWS::StackId", "AWS::StackName"];

/// The beginning of a reference that AWS resolves when it deploys: `{{resolve:ssm:/shop/url}}`.
const DYNAMIC: &str = "{{resolve:";

/// How deep conditions may name each other: one that names itself would have no end.
const CONDITIONS_MAX: usize = 16;

/// The largest text that is made: AWS allows 4 KiB for all variables of a function.
const TEXT_MAX: usize = 64 << 10;

/// How much intrinsic functions may add to a template, in bytes. A short file can name a large value many times.
pub(super) const ADDED_MAX: usize = 64 << 20;

/// The values that a template's functions may be made of.
#[derive(Debug)]
pub(super) struct Intrinsics<'a> {
    /// The parameters with a value.
    pub(super) parameters: BTreeMap<&'a str, Value>,
    pub(super) mappings: Option<&'a YamlNode>,
    pub(super) conditions: Option<&'a YamlNode>,
    /// The names that functions have here, by their logical id.
    pub(super) functions: BTreeMap<&'a str, String>,
    /// How much may still be added, at first [`ADDED_MAX`]. Without any left, no value is known.
    pub(super) left: Cell<usize>,
}

/// The value that an intrinsic function has, or why it has none.
enum IntrinsicValue {
    Known(Value),
    /// `AWS::NoValue`: the key is as if it were not there.
    Absent,
    Unknown,
}

/// Returns name and argument of an intrinsic function: `Ref`, `Sub`, without the prefix of either form.
pub(super) fn intrinsic(node: &YamlNode) -> Option<(&str, &YamlNode)> {
    let Value::Map(entries) = &node.value else { return None };
    let [(key, argument)] = entries.as_slice() else {
        return None;
    };
    let name = key.strip_prefix('!').or_else(|| key.strip_prefix("Fn::"));
    let name = name.or_else(|| (key == "Ref").then_some("Ref"));
    name.map(|name| (name, argument))
}

/// Returns about how many bytes a value takes.
pub(super) fn weight(value: &Value) -> usize {
    /// The place of a value, and its number or its key.
    const NODE: usize = 64;
    let parts: usize = match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(|item| weight(&item.value)).sum(),
        Value::Map(entries) => entries.iter().map(|(key, node)| key.len() + weight(&node.value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    NODE + parts
}

/// Adds the names that a value is made of: `!Ref NAME`, `!GetAtt NAME.Arn`, `!Sub '${NAME}'`.
pub(super) fn references(node: &YamlNode, names: &mut Vec<String>) {
    let first = |path: &str| path.split('.').next().unwrap_or(path).to_owned();
    if let Some((name, argument)) = intrinsic(node) {
        // `!GetAtt [NAME, Arn]`, `!Sub [TEXT, VALUES]`
        let text = argument.value.scalar();
        let text = text.or_else(|| items(argument).first()?.value.scalar());
        match (name, text) {
            ("Ref" | "GetAtt", Some(text)) => names.push(first(&text)),
            ("Sub", Some(text)) => {
                let inside = text.split("${").skip(1).filter_map(|part| part.split_once('}'));
                names.extend(inside.map(|(name, _)| first(name.trim())));
            }
            _ => {}
        }
    }
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| references(item, names)),
        Value::Map(entries) => entries.iter().for_each(|(_, node)| references(node, names)),
        _ => {}
    }
}

/// Returns the words for an intrinsic function in a value, such as `!Ref Table`, or for a text that AWS resolves later; nothing
/// if there is none.
pub(super) fn unresolved(item: &NamedValue<'_>) -> Option<String> {
    if let Value::Text(text) = &item.node.value
        && text.contains(DYNAMIC)
    {
        return Some(text.clone());
    }
    if let Some((name, argument)) = intrinsic(item.node) {
        let argument = dotted(argument);
        return Some(
            format!("!{name} {}", argument.unwrap_or_default())
                .trim_end()
                .to_owned(),
        );
    }
    item.items().iter().find_map(unresolved)
}

/// Returns a note on a value that names a directory which only AWS has.
pub(super) fn place_of_aws(text: &str) -> Option<&'static str> {
    if text.contains("/var/task") {
        Some("there is no `/var/task` here: the code is in `$LAMBDA_TASK_ROOT`")
    } else if text.starts_with("/opt/") {
        Some("there are no layers in `/opt` here: their files are in `$LAMBDA_TASK_ROOT` if you copied them")
    } else {
        None
    }
}

/// Why a value is refused that only AWS knows.
pub(super) fn not_known(words: &str, template: NamedValue<'_>) -> String {
    let has = |section: &str, name: &str| template.get(section).is_some_and(|section| section.get(name).is_some());
    let named = words
        .strip_prefix("!Ref ")
        .or_else(|| words.strip_prefix("!GetAtt "))
        .and_then(|path| path.split('.').next());
    if named.is_some_and(|name| has("Resources", name)) {
        return format!("fnd knows no value for `{words}`, since AWS makes this resource: write the value here");
    }
    match words.strip_prefix("!Ref ") {
        _ if words.contains(DYNAMIC) => format!(
            "only AWS resolves `{words}`: write the value here, or remove the key and name a secret of fnd in `[secrets]` of the written function"
        ),
        Some(name) if has("Parameters", name) => {
            format!("fnd knows no value for `{words}`: write it, or say it with `--parameter {name}=VALUE`")
        }
        Some(name) => format!(
            "fnd knows no value for `{words}`: write it, or say it with `--parameter {name}=VALUE` if it is a parameter"
        ),
        None => format!(
            "fnd knows no value for `{words}`: write it here, or say those of its parameters with `--parameter NAME=VALUE`"
        ),
    }
}

fn items(node: &YamlNode) -> &[YamlNode] {
    match &node.value {
        Value::List(items) => items,
        _ => &[],
    }
}

fn texts(node: &YamlNode) -> Option<Vec<String>> {
    let Value::List(items) = &node.value else { return None };
    items.iter().map(|item| item.value.scalar()).collect()
}

/// Returns the text of a path: `NAME.Arn`, or `[NAME, Arn]`.
fn dotted(path: &YamlNode) -> Option<String> {
    let text = path.value.scalar();
    text.or_else(|| texts(path).map(|texts| texts.join(".")))
}

/// Returns an entry of a map.
pub(super) fn entry<'a>(node: &'a YamlNode, key: &str) -> Option<&'a YamlNode> {
    node.value.entry(key).map(|(_, node)| node)
}

impl Intrinsics<'_> {
    /// Returns a value in which the intrinsic functions are replaced; nothing for `AWS::NoValue`.
    pub(super) fn resolved(&self, node: &YamlNode) -> Option<YamlNode> {
        let value = match intrinsic(node) {
            Some((name, argument)) => match self.value(name, argument) {
                IntrinsicValue::Known(value) => value,
                IntrinsicValue::Absent => return None,
                IntrinsicValue::Unknown => node.value.clone(),
            },
            None => match &node.value {
                Value::List(items) => Value::List(items.iter().filter_map(|item| self.resolved(item)).collect()),
                Value::Map(entries) => {
                    let entry = |(key, node): &(String, YamlNode)| Some((key.clone(), self.resolved(node)?));
                    Value::Map(entries.iter().filter_map(entry).collect())
                }
                other => other.clone(),
            },
        };
        Some(YamlNode { at: node.at, value })
    }

    fn value(&self, name: &str, argument: &YamlNode) -> IntrinsicValue {
        if self.left.get() == 0 {
            return IntrinsicValue::Unknown;
        }
        if name == "If" {
            return self.chosen(argument);
        }
        if name == "Ref" && argument.value.scalar().as_deref() == Some("AWS::NoValue") {
            return IntrinsicValue::Absent;
        }
        let found = match name {
            "Ref" => argument.value.scalar().and_then(|name| self.reference(&name)),
            "GetAtt" => {
                let path = dotted(argument);
                path.and_then(|path| self.attribute(&path)).map(Value::Text)
            }
            "Sub" => self.substituted(argument).map(Value::Text),
            "Join" => self.joined(argument).map(Value::Text),
            "FindInMap" => self.mapped(argument),
            _ => None,
        };
        let found = found.filter(|value| self.spend(weight(value)).is_some());
        found.map_or(IntrinsicValue::Unknown, IntrinsicValue::Known)
    }

    /// Takes a part of what may still be added; nothing if there is not enough left.
    fn spend(&self, amount: usize) -> Option<()> {
        let left = self.left.get().checked_sub(amount);
        self.left.set(left.unwrap_or_default());
        left.map(drop)
    }

    /// `!If [CONDITION, THEN, ELSE]`.
    fn chosen(&self, argument: &YamlNode) -> IntrinsicValue {
        let [condition, then, otherwise] = items(argument) else {
            return IntrinsicValue::Unknown;
        };
        let name = condition.value.scalar().unwrap_or_default();
        let Some(holds) = self.condition(&name) else {
            return IntrinsicValue::Unknown;
        };
        match self.resolved(if holds { then } else { otherwise }) {
            Some(node) => IntrinsicValue::Known(node.value),
            None => IntrinsicValue::Absent,
        }
    }

    /// Says whether a condition holds; nothing if only AWS knows.
    pub(super) fn condition(&self, name: &str) -> Option<bool> {
        self.condition_within(name, CONDITIONS_MAX)
    }

    fn condition_within(&self, name: &str, depth: usize) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        // Conditions that each name the next one several times would take a time that grows with a power of the depth.
        self.spend(weight(&Value::Null))?;
        self.holds(entry(self.conditions?, name)?, depth)
    }

    fn holds(&self, node: &YamlNode, depth: usize) -> Option<bool> {
        // The long form of this function has no prefix.
        if let Some(name) = entry(node, "Condition").or_else(|| entry(node, "!Condition")) {
            return self.condition_within(&name.value.scalar()?, depth);
        }
        let (name, argument) = intrinsic(node)?;
        let parts = items(argument);
        let all = || {
            parts
                .iter()
                .map(|part| self.holds(part, depth))
                .collect::<Option<Vec<bool>>>()
        };
        match (name, parts) {
            ("Equals", [one, other]) => Some(self.text(one)? == self.text(other)?),
            ("Not", [_]) => all().map(|all| !all.contains(&true)),
            ("And", _) => all().map(|all| !all.contains(&false)),
            ("Or", _) => all().map(|all| all.contains(&true)),
            _ => None,
        }
    }

    /// Returns the text that a value is in the end.
    fn text(&self, node: &YamlNode) -> Option<String> {
        self.resolved(node)?.value.scalar()
    }

    fn reference(&self, name: &str) -> Option<Value> {
        let own = || {
            let text = match name {
                "AWS::Region" => REGION,
                "AWS::AccountId" => ACCOUNT,
                "AWS::Partition" => "aws",
                "AWS::URLSuffix" => "amazonaws.com",
                _ => self.functions.get(name)?.as_str(),
            };
            Some(Value::Text(text.to_owned()))
        };
        self.parameters.get(name).cloned().or_else(own)
    }

    /// `FUNCTION.Arn`: the ARN that fnd tells the function.
    fn attribute(&self, path: &str) -> Option<String> {
        let name = self.functions.get(path.strip_suffix(".Arn")?)?;
        let text = |name: &str| self.reference(name)?.scalar();
        let (region, account) = (text("AWS::Region")?, text("AWS::AccountId")?);
        Some(format!("arn:aws:lambda:{region}:{account}:function:{name}"))
    }

    /// `!Sub TEXT`, `!Sub [TEXT, {NAME: VALUE}]`.
    fn substituted(&self, argument: &YamlNode) -> Option<String> {
        let (text, values) = match items(argument) {
            [] => (argument, None),
            [text, values] => (text, Some(values)),
            _ => return None,
        };
        let text = text.value.scalar()?;
        let mut parts = text.split("${");
        let mut made = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}')?;
            match name.strip_prefix('!') {
                // `${!NAME}` is the text `${NAME}`.
                Some(literal) => made.push_str(&format!("${{{literal}}}")),
                None => made.push_str(&self.named(name.trim(), values)?),
            }
            made.push_str(rest);
            if made.len() > TEXT_MAX {
                return None;
            }
        }
        Some(made)
    }

    fn named(&self, name: &str, values: Option<&YamlNode>) -> Option<String> {
        if let Some(own) = values.and_then(|values| entry(values, name)) {
            return self.text(own);
        }
        let reference = || self.reference(name).and_then(|value| value.scalar());
        reference().or_else(|| self.attribute(name))
    }

    /// `!Join [BETWEEN, [PART, ...]]`.
    fn joined(&self, argument: &YamlNode) -> Option<String> {
        let [between, parts] = items(argument) else { return None };
        let (parts, between) = (texts(&self.resolved(parts)?)?, between.value.scalar()?);
        let length: usize = parts.iter().map(|part| part.len() + between.len()).sum();
        (length <= TEXT_MAX).then(|| parts.join(&between))
    }

    /// `!FindInMap [MAP, KEY, KEY]`.
    fn mapped(&self, argument: &YamlNode) -> Option<Value> {
        let [map, first, second] = items(argument) else {
            return None;
        };
        let map = entry(self.mappings?, &self.text(map)?)?;
        let found = entry(entry(map, &self.text(first)?)?, &self.text(second)?)?;
        Some(found.value.clone())
    }
}
