//! Resolves `fnd.toml` and `conf.d/*.toml` to [`Settings`].

use super::Settings;
use super::keys::{SCHEMA, SIZES};
use crate::diagnostic::Diagnostic;
use crate::function::SandboxKeys;
use crate::function::sandbox::{Profile, refused_capability};
use crate::schema::pick::{FromValue, Pick, key_at};
use crate::schema::read::{constant, read};
use crate::schema::source::Source;
use crate::schema::tree::{self, TomlNode, TomlTable, TomlValue};
use fnd_wire::trust;
use std::net::SocketAddr;

/// The beginning of the names of variables that nobody but fnd sets.
pub(crate) const OWN_PREFIX: &str = "FND_";

/// The configuration, including the parts that only the judge needs.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The settings that all parts of fnd use.
    pub settings: Settings,
    /// `[defaults]`; each manifest is merged over it.
    pub defaults: TomlTable,
    /// `[sizes]` with the built-in ones: a table of limits for each name.
    pub sizes: TomlTable,
    /// The files, indexed by [`tree::TomlPosition::source`] of the nodes in `defaults` and `sizes`.
    pub sources: Vec<Source>,
}

impl Configuration {
    /// Returns the profile of functions whose manifest names none.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let written = tree::find(&self.defaults, "sandbox.profile");
        let written = written.and_then(|node| Profile::parse(&node.value.text()));
        written.unwrap_or(self.settings.sandbox.profile)
    }

    /// Returns `[sandbox]` of functions whose manifest has none.
    #[must_use]
    pub fn sandbox(&self) -> SandboxKeys {
        let written = self.defaults.get("sandbox").map(|node| node.value.clone());
        SandboxKeys {
            profile: self.profile(),
            ..SandboxKeys::from_value(written).expect("a checked table")
        }
    }
}

/// Returns the configuration of files, which are merged in their order, for any machine. Without files it is the default
/// configuration.
///
/// # Errors
/// All diagnostics; at least one of them is an error.
pub fn configuration<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Configuration, Vec<Diagnostic>> {
    configuration_on(files, usize::MAX)
}

/// Returns the configuration of files for a machine with `cpus` CPUs.
///
/// # Errors
/// All diagnostics; at least one of them is an error.
pub fn configuration_on<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    cpus: usize,
) -> Result<Configuration, Vec<Diagnostic>> {
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    let mut merged = TomlTable::new();
    for (name, bytes) in files {
        match Source::whole(name, bytes) {
            Ok(source) => {
                let (table, found) = read(&source, sources.len(), SCHEMA);
                // A file with mistakes is merged, too, so that the checks below report further mistakes with the first
                // ones.
                tree::merge(&mut merged, table);
                problems.extend(found);
                sources.push(source);
            }
            Err(problem) => problems.push(*problem),
        }
    }
    let sizes = sizes(&merged);
    let at = |at: &tree::TomlPosition, problem: Diagnostic| match sources.get(at.source) {
        Some(source) => problem.at(source, at.value.clone()),
        None => problem,
    };
    if let Some(node) = tree::find(&merged, "users.range")
        && let Err(message) = range(&node.value)
    {
        let problem = Diagnostic::error("bad-value", format!("`users.range`: {message}"));
        problems.push(at(&node.at, problem));
    }
    let capabilities = tree::find(&merged, "users.capabilities");
    for node in capabilities.into_iter().flat_map(|node| node.value.items()) {
        problems.extend(refused_capability(&node.value.text()).map(|problem| at(&node.at, problem)));
    }
    if let Some(node) = tree::find(&merged, "node.spin").filter(|node| cpus < 2 && node.value != TomlValue::Micros(0)) {
        let message =
            "`node.spin` needs more than one CPU: on the only one, the program that fnd waits for could not run";
        let problem = Diagnostic::error("bad-value", message).with_help("remove the key, or set it to `\"0\"`");
        problems.push(at(&node.at, problem));
    }
    if let Some(node) = tree::find(&merged, "defaults.size")
        && !sizes.contains_key(&node.value.text())
    {
        problems.push(at(&node.at, unknown_size(&node.value.text(), &sizes)));
    }
    let groups = tree::table(&merged, "groups").into_iter().flat_map(TomlTable::keys);
    let groups: Vec<&str> = groups.map(String::as_str).collect();
    if let Some(node) = tree::find(&merged, "defaults.queue.group")
        && let Some(problem) = unknown_group(&node.value.text(), &groups)
    {
        problems.push(at(&node.at, problem));
    }
    for (name, node) in tree::table(&merged, "build.env").into_iter().flatten() {
        if name.starts_with(OWN_PREFIX) {
            problems.push(at(&node.at, reserved_variable(name)));
        }
    }
    for (node, problem) in listening(&merged)
        .into_iter()
        .chain(access(&merged))
        .chain(nats(&merged))
    {
        problems.push(at(&node.at, problem));
    }
    if problems.iter().any(Diagnostic::is_error) {
        return Err(problems);
    }
    Ok(Configuration {
        settings: settings(Settings::pick(&merged), &sizes),
        defaults: tree::table(&merged, "defaults").cloned().unwrap_or_default(),
        sizes,
        sources,
    })
}

/// Returns the diagnostic of a variable that fnd sets itself.
#[must_use]
pub fn reserved_variable(name: &str) -> Diagnostic {
    let message = format!("the variable `{name}` is set by fnd itself");
    Diagnostic::error("reserved", message).with_help("use another name")
}

/// Returns the diagnostic of an unknown size.
#[must_use]
pub fn unknown_size(name: &str, sizes: &TomlTable) -> Diagnostic {
    let names: Vec<&str> = sizes.keys().map(String::as_str).collect();
    let problem = Diagnostic::error("unknown-size", format!("unknown size `{name}`"));
    problem.with_help(format!(
        "known sizes: {}; add others to `[sizes]` of `fnd.toml`",
        crate::schema::read::list(&names)
    ))
}

/// Returns the diagnostic of a group that is none of `[groups]`; nothing if it is one.
#[must_use]
pub fn unknown_group(name: &str, groups: &[&str]) -> Option<Diagnostic> {
    let known = match groups.is_empty() {
        true => "`fnd.toml` has no groups".to_owned(),
        false => format!("known groups: {}", crate::schema::read::list(groups)),
    };
    let problem = Diagnostic::error("unknown-group", format!("unknown group `{name}`"));
    let help = format!("{known}; add `{name} = {{ max = 2 }}` to `[groups]` of `fnd.toml`, then run `fndctl reload`");
    (!groups.contains(&name)).then(|| problem.with_help(help))
}

/// Returns the sizes: the tables are merged over the built-in ones.
fn sizes(merged: &TomlTable) -> TomlTable {
    let kind = &key_at(Settings::KEYS, "sizes").expect("a key of the schema").kind;
    let TomlValue::Table(mut sizes) = constant(kind, SIZES) else {
        unreachable!("sizes are a table");
    };
    if let Some(own) = tree::table(merged, "sizes") {
        tree::merge(&mut sizes, own.clone());
    }
    sizes
}

/// Returns the addresses of `[http] listen` that everybody may reach although `public` is not set.
fn listening(merged: &TomlTable) -> Vec<(&TomlNode, Diagnostic)> {
    let is_public = tree::find(merged, "http.public").is_some_and(|node| node.value == TomlValue::Bool(true));
    let Some(node) = tree::find(merged, "http.listen").filter(|_| !is_public) else {
        return Vec::new();
    };
    let written: Vec<&TomlNode> = match &node.value {
        TomlValue::List(items) => items.iter().collect(),
        _ => vec![node],
    };
    let problem = |node| {
        let TomlNode { value, .. }: &TomlNode = node;
        let text = value.text();
        // A Unix socket is no such address: other machines cannot reach it.
        let address = text.parse::<SocketAddr>().ok()?;
        let message = format!("`{text}` can be reached from other machines");
        let help = "set `public = true` in `[http]` if it shall be, or listen on `127.0.0.1` behind a web server";
        (!address.ip().is_loopback()).then(|| (node, Diagnostic::error("public", message).with_help(help)))
    };
    written.into_iter().filter_map(problem).collect()
}

/// Returns the entries of `[[access]]` that name neither a group nor a user, or both.
fn access(merged: &TomlTable) -> Vec<(&TomlNode, Diagnostic)> {
    let problem = |entry| {
        let TomlNode { value, .. }: &TomlNode = entry;
        let keys = value.as_table()?;
        let (message, node) = match (keys.get("group"), keys.get("user")) {
            (Some(_), Some(user)) => ("this entry of `[[access]]` names both a group and a user", user),
            (None, None) => ("this entry of `[[access]]` names neither a group nor a user", entry),
            (Some(_), None) | (None, Some(_)) => return None,
        };
        let help = "an entry has either `group = \"...\"` or `user = \"...\"`; write an entry for each";
        Some((node, Diagnostic::error("bad-value", message).with_help(help)))
    };
    tree::entries(merged, "access").iter().filter_map(problem).collect()
}

/// Returns the key of `[events.nats]` that has no effect without another one.
fn nats(merged: &TomlTable) -> Option<(&TomlNode, Diagnostic)> {
    let find = |key: &str| tree::find(merged, &format!("events.nats.{key}"));
    let alone = |key: &'static str, other: &str| {
        let node = find(key).filter(|_| find(other).is_none())?;
        let message = format!("`events.nats.{key}` has no effect without `events.nats.{other}`");
        let help = format!("add `{other}`, or remove `{key}`");
        Some((node, Diagnostic::error("impossible", message).with_help(help)))
    };
    alone("certificate", "key").or_else(|| alone("key", "certificate"))
}

/// Returns the first and the last uid.
fn range(value: &TomlValue) -> Result<(u32, u32), String> {
    let numbers = value.items().iter().filter_map(|item| match item.value {
        TomlValue::Whole(number) => u32::try_from(number).ok(),
        _ => None,
    });
    match numbers.collect::<Vec<u32>>().as_slice() {
        // Lower uids belong to the system's own users on every distribution.
        [first, last] if *first >= 1000 && first < last => match trust::reserved(*first, *last) {
            None => Ok((*first, *last)),
            Some(id) => Err(format!(
                "the range contains the uid {id}, which no function may have; use 70000 to 99999"
            )),
        },
        [first, _] if *first < 1000 => {
            Err("expected uids from 1000 on: lower ones belong to users of the system".to_owned())
        }
        [_, _] => Err("expected the first uid below the last".to_owned()),
        _ => Err("expected two uids, the first and the last".to_owned()),
    }
}

impl FromValue for (u32, u32) {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        range(&value?).ok()
    }
}

fn settings(pick: Pick<'_>, sizes: &TomlTable) -> Settings {
    let sizes = sizes.iter().map(|(name, node)| {
        let size = FromValue::from_value(Some(node.value.clone()));
        (name.clone(), size.expect("a table"))
    });
    Settings {
        // The default depends on how fnd was started (`--user`), which the judge does not know.
        functions_dirs: pick.written("functions_dirs").map(|_| pick.get("functions_dirs")),
        default_runtime: pick.get("defaults.runtime"),
        sizes: sizes.collect(),
        ..Settings::read(pick)
    }
}
