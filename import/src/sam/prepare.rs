//! Makes a template ready to be read: the values of parameters, `Globals`, and intrinsic functions whose value is known.

use super::intrinsics::{
    ACCOUNT, ADDED_MAX, Intrinsics, PSEUDO_PARAMETERS, REGION, entry, intrinsic, references, weight,
};
use crate::names::ImportedNames;
use crate::tree::NamedValue;
use fnd_manifest::foreign::yaml::{Document, Value, YamlNode};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The longest value of a parameter, in bytes, as at AWS.
const PARAMETER_MAX: usize = 4_096;

/// The type of the functions.
const FUNCTION: &str = "AWS::Serverless::Function";

/// A template that is ready to be read.
#[derive(Debug)]
pub(super) struct SamTemplate {
    pub(super) document: Document,
    /// The names that functions get, by their logical id.
    pub(super) names: BTreeMap<String, String>,
    /// The functions whose condition does not hold.
    pub(super) left_out: Vec<String>,
    /// The functions whose condition only AWS can judge.
    pub(super) unclear: Vec<String>,
    /// Whether `Globals` is too large for so many functions. Then it was left out.
    pub(super) is_too_large: bool,
    /// The region, if it was given.
    pub(super) region: Option<String>,
    /// The parameters whose values are secret (`NoEcho`).
    secret: BTreeSet<String>,
    /// The names that stand for a value that fnd has made up, and that value.
    made_up: Vec<(&'static str, &'static str)>,
    /// The template as it was before intrinsic functions were replaced.
    merged: YamlNode,
}

impl SamTemplate {
    /// Returns the names that a variable of a function is made of.
    pub(super) fn sources(&self, id: &str, variable: &str) -> Vec<String> {
        let mut node = &self.merged;
        for key in ["Resources", id, "Properties", "Environment", "Variables", variable] {
            // An intrinsic function makes the variable, and all that is around it up to here.
            let Some(inner) = entry(node, key) else { break };
            node = inner;
        }
        let mut names = Vec::new();
        references(node, &mut names);
        names
    }

    /// Says whether a name is that of a parameter with `NoEcho`.
    pub(super) fn is_secret(&self, name: &str) -> bool {
        self.secret.contains(name)
    }

    /// Returns the first of these names that is a parameter with `NoEcho`.
    pub(super) fn secret_of<'n>(&self, names: &'n [String]) -> Option<&'n str> {
        let mut names = names.iter().map(String::as_str);
        names.find(|name| self.is_secret(name))
    }

    /// Returns a note on the first of these names that means something else here than at AWS.
    pub(super) fn local_of(&self, names: &[String]) -> Option<String> {
        names.iter().find_map(|name| {
            let made_up = self.made_up.iter().find(|(known, _)| known == name);
            let made_up = made_up
                .map(|(name, value)| format!("`{name}` is `{value}` here: `--parameter {name}=VALUE` says another"));
            let function = || {
                let here = self.names.get(name)?;
                Some(format!(
                    "it names the function `{here}` of fnd: no API of Lambda is here to call it"
                ))
            };
            made_up.or_else(function)
        })
    }
}

/// Prepares a template; `given` are values of parameters.
pub(super) fn prepared(document: &Document, given: &[(String, String)], names: &mut ImportedNames) -> SamTemplate {
    let root = NamedValue::root(document);
    let mut intrinsics = Intrinsics {
        parameters: parameters(&root, given),
        mappings: entry(&document.root, "Mappings"),
        conditions: entry(&document.root, "Conditions"),
        functions: BTreeMap::new(),
        left: Cell::new(ADDED_MAX),
    };
    let resources = root.get("Resources");
    let functions = resources.iter().flat_map(NamedValue::items);
    let functions: Vec<NamedValue<'_>> = functions.filter(is_function).collect();
    for function in &functions {
        // A name of its own may be made of parameters; those of other functions are not known yet.
        let own = function
            .get("Properties")
            .and_then(|properties| properties.get("FunctionName"));
        let own = own.and_then(|own| intrinsics.resolved(own.node));
        let own = own.and_then(|node| match node.value {
            Value::Text(text) => Some(text),
            _ => None,
        });
        let name = names.unique(own.as_deref().unwrap_or(function.key));
        intrinsics.functions.insert(function.key, name);
    }
    // Absent: it has no condition. The inner one is absent if only AWS can judge it.
    let holds = |function: &NamedValue<'_>| {
        let condition = function.text_of("Condition");
        condition.map(|name| intrinsics.condition(&name))
    };
    let with = |judged: Option<bool>| {
        let found = functions.iter().filter(|&function| holds(function) == Some(judged));
        found.map(|function| function.key.to_owned()).collect::<Vec<_>>()
    };
    let (left_out, unclear) = (with(Some(false)), with(None));
    let globals = root.get("Globals").and_then(|globals| globals.get("Function"));
    let globals = globals.map(|globals| globals.node);
    // Each function gets a copy.
    let copies = |globals: &YamlNode| weight(&globals.value).saturating_mul(functions.len());
    let is_too_large = globals.is_some_and(|globals| copies(globals) > ADDED_MAX);
    let merged = with_globals(&document.root, globals.filter(|_| !is_too_large));
    let resolved = intrinsics.resolved(&merged).unwrap_or_else(|| merged.clone());
    let is_given = |name: &str| given.iter().any(|(known, _)| known == name);
    let made_up = [("AWS::Region", REGION), ("AWS::AccountId", ACCOUNT)];
    let region = given.iter().find(|(name, _)| name == "AWS::Region");
    SamTemplate {
        unclear,
        is_too_large,
        region: region.map(|(_, value)| value.clone()),
        secret: secret(&root),
        made_up: made_up.into_iter().filter(|(name, _)| !is_given(name)).collect(),
        merged,
        document: Document {
            file: Rc::clone(&document.file),
            lines: Rc::clone(&document.lines),
            root: resolved,
        },
        left_out,
        names: intrinsics
            .functions
            .into_iter()
            .map(|(id, name)| (id.to_owned(), name))
            .collect(),
    }
}

/// Says whether a resource is a function of SAM.
pub(super) fn is_function(resource: &NamedValue<'_>) -> bool {
    resource.text_of("Type").as_deref() == Some(FUNCTION)
}

/// Returns the names of the parameters with `NoEcho`.
fn secret(root: &NamedValue<'_>) -> BTreeSet<String> {
    let all = root.get("Parameters");
    let all = all.iter().flat_map(NamedValue::items);
    let secret = all.filter(|parameter| parameter.get("NoEcho").and_then(|item| item.truth()) == Some(true));
    secret.map(|parameter| parameter.key.to_owned()).collect()
}

/// Returns the values of the parameters: the given ones, else their defaults.
fn parameters<'a>(root: &NamedValue<'a>, given: &[(String, String)]) -> BTreeMap<&'a str, Value> {
    let all = root.get("Parameters");
    let given_value = |name: &str| {
        given
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, text)| text.clone())
    };
    let value = |parameter: NamedValue<'a>| {
        let kind = parameter.text_of("Type").unwrap_or_default();
        // The default of such a parameter is the name under which AWS has the value.
        let is_stored = kind.starts_with("AWS::SSM::Parameter::Value");
        let default = || parameter.text_of("Default").filter(|_| !is_stored);
        let text = given_value(parameter.key).or_else(default)?;
        if text.len() > PARAMETER_MAX {
            return None;
        }
        // `CommaDelimitedList`, `List<Number>`
        let value = if kind.contains("List") {
            let item = |text: &str| YamlNode {
                at: parameter.node.at,
                value: Value::Text(text.trim().to_owned()),
            };
            Value::List(text.split(',').map(item).collect())
        } else {
            Value::Text(text)
        };
        Some((parameter.key, value))
    };
    let pseudo = PSEUDO_PARAMETERS.into_iter();
    let pseudo = pseudo.filter_map(|name| Some((name, Value::Text(given_value(name)?))));
    let own = all.iter().flat_map(NamedValue::items).filter_map(value);
    own.chain(pseudo).collect()
}

/// Returns the template in which each function has the properties of `Globals` that it does not have itself.
fn with_globals(root: &YamlNode, globals: Option<&YamlNode>) -> YamlNode {
    let (Some(globals), Value::Map(sections)) = (globals, &root.value) else {
        return root.clone();
    };
    let section = |(name, node): &(String, YamlNode)| match (name.as_str(), &node.value) {
        ("Resources", Value::Map(resources)) => {
            let resources = resources
                .iter()
                .map(|(id, node)| (id.clone(), completed(node, globals)));
            let value = Value::Map(resources.collect());
            (name.clone(), YamlNode { at: node.at, value })
        }
        _ => (name.clone(), node.clone()),
    };
    YamlNode {
        at: root.at,
        value: Value::Map(sections.iter().map(section).collect()),
    }
}

fn completed(resource: &YamlNode, globals: &YamlNode) -> YamlNode {
    let kind = entry(resource, "Type").map(|node| &node.value);
    if kind != Some(&Value::Text(FUNCTION.to_owned())) {
        return resource.clone();
    }
    let Value::Map(attributes) = &resource.value else {
        return resource.clone();
    };
    let mut attributes = attributes.clone();
    match attributes.iter_mut().find(|(key, _)| key == "Properties") {
        Some((_, own)) => *own = joined(globals, own),
        None => attributes.push(("Properties".to_owned(), globals.clone())),
    }
    YamlNode {
        at: resource.at,
        value: Value::Map(attributes),
    }
}

/// Joins a value of `Globals` with a function's own: maps and lists are united, any other value of the function wins.
fn joined(global: &YamlNode, own: &YamlNode) -> YamlNode {
    if intrinsic(global).is_some() || intrinsic(own).is_some() {
        return own.clone();
    }
    let value = match (&global.value, &own.value) {
        (Value::List(global), Value::List(own)) => Value::List([global.as_slice(), own.as_slice()].concat()),
        (Value::Map(global), Value::Map(entries)) => {
            let mut all = entries.clone();
            for (key, node) in global {
                match all.iter_mut().find(|(known, _)| known == key) {
                    Some((_, own)) => *own = joined(node, own),
                    None => all.push((key.clone(), node.clone())),
                }
            }
            Value::Map(all)
        }
        _ => own.value.clone(),
    };
    YamlNode { at: own.at, value }
}
