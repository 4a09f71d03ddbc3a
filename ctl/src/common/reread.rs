//! Files that fnd reads only when it is told to: secrets and service bindings. Says which functions use them.

use crate::context::Context;
use crate::exit::CommandFailure;
use crate::local::{LocalPlaces, named_configuration};
use crate::secrets::users;
use fnd_core::api::{NodeStatus, ReloadReport};
use fnd_manifest::diagnostic::Diagnostic;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The use that a verb makes of the files beside a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Change,
}

/// Returns the configuration that the command line names, or that of an installation. Without `--config`, files beside another
/// configuration than that of the running fnd are not changed, and a note says that they are read.
///
/// # Errors
/// The user has no home, the named file does not exist, or the running fnd has another configuration.
pub(crate) async fn configuration(
    context: &Context,
    named: Option<&Path>,
    how: Use,
) -> Result<PathBuf, CommandFailure> {
    let config = named_configuration(named, &LocalPlaces::of(context.user)?)?;
    match running_configuration(context).await {
        Some(running) if named.is_none() && !is_same(&running, &config) => match how {
            Use::Change => return Err(other_configuration(&config, &running)),
            Use::Read => note(context, &config, &running),
        },
        Some(_) | None => {}
    }
    Ok(config)
}

/// Notes that a verb reads another configuration than the running fnd, unless the command line names it.
pub(crate) async fn note_other(context: &Context, named: Option<&Path>, config: &Path) {
    if named.is_none()
        && let Some(running) = running_configuration(context).await
        && !is_same(&running, config)
    {
        note(context, config, &running);
    }
}

fn note(context: &Context, config: &Path, running: &Path) {
    let (config, running) = (config.display(), running.display());
    context.out.aside(&format!(
        "this reads `{config}`, but the running fnd has `{running}`: `--config {running}` reads that"
    ));
}

fn other_configuration(config: &Path, running: &Path) -> CommandFailure {
    let (config, running) = (config.display(), running.display());
    CommandFailure::usage(format!(
        "nothing was changed: this would write beside `{config}`, but the running fnd has `{running}`"
    ))
    .help(format!(
        "name the one that is meant: `--config {running}` or `--config {config}`"
    ))
}

/// Returns the configuration of the running fnd; none if it does not answer, or does not tell this caller.
async fn running_configuration(context: &Context) -> Option<PathBuf> {
    let node: NodeStatus = context.read("/v1/status").await.ok()?;
    Some(PathBuf::from(node.places?.config))
}

/// Says whether two paths name one file, which may be missing: a directory above it may be a link.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let directory = std::fs::canonicalize(path.parent()?).ok()?;
        Some(directory.join(path.file_name()?))
    };
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}

/// Has fnd read its files again. Returns the functions that use one of this name, if fnd knows, and a sentence about them.
/// `named` finds the names in a manifest.
pub(crate) async fn reread(
    context: &Context,
    name: &str,
    named: fn(&Value) -> Vec<String>,
) -> (Option<Vec<String>>, String) {
    // fnd may not run; it reads the file when it starts.
    if let Err(failure) = reload(context).await {
        return (None, format!("fnd was not asked to read it: {}", failure.message));
    }
    let Ok(mut users) = users::of_all(context, named).await else {
        return (None, "fnd has read it again".to_owned());
    };
    let users = users.remove(name).unwrap_or_default();
    let used = match users.as_slice() {
        [] => "nothing uses it yet".to_owned(),
        users => format!("used by {}", users.join(", ")),
    };
    (Some(users), used)
}

/// Has fnd read its files again, and prints which new versions do not serve.
///
/// # Errors
/// fnd does not run, or refuses it.
pub(crate) async fn reload(context: &Context) -> Result<(), CommandFailure> {
    let reply = context.client.post("/v1/reload").await?;
    if let Ok(report) = serde_json::from_slice(&reply.body) {
        not_serving(&report).iter().for_each(|line| context.out.aside(line));
    }
    Ok(())
}

/// Returns a line about each function whose new version does not serve. The next reload calls these problems old, so they are said now.
fn not_serving(report: &ReloadReport) -> Vec<String> {
    let failed = report.diagnostics.iter().filter(|problem| problem.code == "load");
    let trying = report
        .trying
        .iter()
        .map(|function| format!("{function}: its new version is still being loaded, and the one before serves"));
    failed.map(Diagnostic::text).chain(trying).collect()
}

/// Returns the functions of a table that use something, as a cell.
pub(crate) fn used_by(users: Option<&Vec<String>>) -> String {
    users.map_or_else(|| "?".to_owned(), |users| users.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::FunctionName;

    #[test]
    fn a_configuration_is_the_same_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        std::fs::create_dir(at("b")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        assert!(is_same(&at("a/fnd.toml"), &at("link/fnd.toml")));
        assert!(is_same(Path::new("/none/fnd.toml"), Path::new("/none/fnd.toml")));
        for other in ["b/fnd.toml", "a/other.toml", "none/fnd.toml"] {
            assert!(!is_same(&at("a/fnd.toml"), &at(other)), "{other}");
        }
    }

    #[test]
    fn versions_that_do_not_serve_with_the_new_file_are_named() {
        let report = ReloadReport {
            diagnostics: vec![
                Diagnostic::error("load", "no such host").in_file("/f/a.py"),
                Diagnostic::error("file", "another problem"),
            ],
            trying: vec![FunctionName::new("b").unwrap()],
            ..ReloadReport::default()
        };
        let lines = not_serving(&report);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("/f/a.py") && lines[0].contains("no such host"));
        assert!(lines[1].starts_with("b: "));
    }

    #[test]
    fn a_refusal_names_both_configurations() {
        let failure = other_configuration(Path::new("/etc/fnd/fnd.toml"), Path::new("/a/fnd.toml"));
        let help = failure.help.unwrap();
        for words in ["`--config /a/fnd.toml`", "`--config /etc/fnd/fnd.toml`"] {
            assert!(help.contains(words), "{help}");
        }
    }
}
