//! Finds where the code of a function comes from (`[source]`), and makes the plan that fetches it. The plan is one of fnd's
//! own function [`fnd_wire::plan::BUILD`], as that of an installation of dependencies.

use super::Judge;
use super::build::Task;
use crate::diagnostic::Diagnostic;
use crate::function::keys::Source;
use crate::function::resolve::Report;
use crate::schema::pick::Pick;
use crate::schema::tree::{At, Table, Value, find};
use fnd_wire::plan::{Build, Form, JudgeFunction};
use serde::{Deserialize, Serialize};

/// Where the code of a function comes from, in the verdict on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// For people: `https://git.example.com/shop.git`.
    pub from: String,
    /// How often it is fetched again, in seconds; absent: only when a person asks for it.
    pub every_s: Option<u64>,
}

/// What is fetched, and the arguments of the program that does it.
struct Fetch {
    origin: Origin,
    arguments: Vec<String>,
    /// A repository on this machine.
    path: Option<String>,
}

impl Judge {
    /// Returns where the code of a function comes from, and how it is fetched; the latter is absent if it is there already,
    /// or if there are problems.
    pub(super) fn source(
        &self,
        function: &JudgeFunction,
        own: &Table,
        report: &mut Report<'_>,
    ) -> Option<(Origin, Option<Build>)> {
        let node = own.get("source")?;
        let Value::Table(table) = &node.value else { return None };
        let source = Source::read(Pick {
            table,
            keys: Source::KEYS,
        });
        let fetch = fetch(&source, (own, &node.at), report)?;
        match &function.form {
            Form::Source => return Some((fetch.origin, None)),
            Form::Directory => {
                let other = function.files.iter().find(|file| file.path != "function.toml");
                if let Some(other) = other {
                    let message = format!(
                        "it has a source, and the directory has a file of its own: `{}`",
                        other.path
                    );
                    let help = "remove `[source]`, or the file";
                    report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
                }
            }
            Form::File | Form::Archive(_) => {
                let message = "`[source]` is only for a directory with nothing but `function.toml`";
                let help = format!("write it into `{}/function.toml`", function.name.as_str());
                report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
            }
        }
        let runtime = self.runtimes.iter().find(|runtime| runtime.fetch.is_some());
        let Some((runtime, phase)) = runtime.and_then(|runtime| Some((runtime, runtime.fetch.as_ref()?))) else {
            let problem = Diagnostic::error("no-runtime", "no runtime has a phase `fetch`, which `[source]` needs");
            report.add(
                Some(&node.at),
                problem.with_help("the runtime `bash` that is shipped with fnd has it"),
            );
            return None;
        };
        let task = Task {
            description: "Fetches the code of functions",
            made: serde_json::to_vec(&source).expect("texts and numbers only"),
            inputs: Vec::new(),
            phase,
            arguments: fetch.arguments,
            secrets: source.key.iter().map(|key| ("key".to_owned(), key.clone())).collect(),
            shown: fetch.path,
            fresh_for: source.git.is_some().then_some(fetch.origin.every_s).flatten(),
        };
        let build = self.build(task, runtime, None);
        Some((fetch.origin, build.filter(|_| !report.refused())))
    }
}

/// Returns what is fetched; reports what is wrong.
fn fetch(source: &Source, (own, table): (&Table, &At), report: &mut Report<'_>) -> Option<Fetch> {
    let mut refuse = |key: &str, problem: Diagnostic| {
        let node = find(own, &format!("source.{key}"));
        report.add(Some(node.map_or(table, |node| &node.at)), problem);
    };
    let bad = |message: String, help: &str| Diagnostic::error("bad-value", message).with_help(help);
    let written = |value: bool, key: &'static str| value.then_some(key);
    let (git, url) = match (&source.git, &source.url) {
        (Some(git), None) => (Some(git), None),
        (None, Some(url)) => (None, Some(url)),
        (git, _) => {
            let message = if git.is_some() {
                "`[source]` has both `git` and `url`"
            } else {
                "`[source]` names no source"
            };
            refuse("url", bad(message.to_owned(), "write one of `git` and `url`"));
            return None;
        }
    };
    let of_git = [
        written(source.key.is_some(), "key"),
        written(source.r#ref.is_some(), "ref"),
        written(source.dir.is_some(), "dir"),
        written(source.every.is_some(), "every"),
    ];
    let foreign: Vec<_> = if git.is_some() {
        vec![written(source.sha256.is_some(), "sha256")]
    } else {
        of_git.to_vec()
    };
    if let Some(key) = foreign.into_iter().flatten().next() {
        let other = if git.is_some() { "url" } else { "git" };
        let message = format!("`source.{key}` is only for a source with `{other}`");
        refuse(key, bad(message, "remove it"));
        return None;
    }
    let secs = |every: std::time::Duration| every.as_secs().max(1);
    if let Some(git) = git {
        if !is_repository(git) {
            let message = format!("`source.git`: `{}` is no address of a repository", git.escape_debug());
            refuse(
                "git",
                bad(
                    message,
                    "write `https://HOST/PATH`, `ssh://USER@HOST/PATH`, `USER@HOST:PATH` or a path",
                ),
            );
            return None;
        }
        let name = |text: &Option<String>| text.clone().unwrap_or_default();
        if let Some(name) = source
            .r#ref
            .as_ref()
            .filter(|name| name.starts_with('-') || name.contains(".."))
        {
            refuse(
                "ref",
                bad(
                    format!("`source.ref`: `{name}` is no branch, tag or commit"),
                    "write its name",
                ),
            );
            return None;
        }
        let mut from = git.clone();
        if let Some(name) = &source.r#ref {
            from += &format!(" {name}");
        }
        return Some(Fetch {
            origin: Origin {
                from,
                every_s: source.every.map(secs),
            },
            arguments: vec!["git".to_owned(), git.clone(), name(&source.r#ref), name(&source.dir)],
            path: git.starts_with('/').then(|| git.clone()),
        });
    }
    let url = url?;
    let host = ["https://", "http://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme));
    let path = host.and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
    let path = path.map(|path| path.split(['?', '#']).next().unwrap_or_default());
    let base = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if base.is_empty() || base.starts_with(['.', '-']) || !base.bytes().all(is_plain) || has_control(url) {
        let message = format!("`source.url`: `{}` names no file", url.escape_debug());
        refuse(
            "url",
            bad(
                message,
                "write `https://HOST/PATH/FILE`; the name of the file says what it is: `.zip`, `.tar.gz`, `.py`",
            ),
        );
        return None;
    }
    let sum = source.sha256.clone().unwrap_or_default().to_ascii_lowercase();
    if source.sha256.is_some() && (sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let message = "`source.sha256`: expected 64 hexadecimal digits".to_owned();
        refuse("sha256", bad(message, "`sha256sum FILE` prints them"));
        return None;
    }
    if sum.is_empty() && url.starts_with("http://") {
        let message = "`source.url`: anybody on the way can change a file that comes by `http://`".to_owned();
        refuse(
            "url",
            bad(
                message,
                "use `https://`, or write `sha256` (`sha256sum FILE` prints it)",
            ),
        );
        return None;
    }
    Some(Fetch {
        origin: Origin {
            from: url.clone(),
            every_s: None,
        },
        arguments: vec!["url".to_owned(), url.clone(), sum, base.to_owned()],
        path: None,
    })
}

fn has_control(text: &str) -> bool {
    text.chars().any(|char| char.is_control() || char == ' ')
}

/// Says whether a text is the address of a repository. The helpers of git (`ext::`) can run any command, and an option is
/// none.
fn is_repository(git: &str) -> bool {
    let of_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['-', '/']);
    if has_control(git) || git.contains("::") {
        return false;
    }
    if let Some(rest) = ["https://", "ssh://"]
        .iter()
        .find_map(|scheme| git.strip_prefix(scheme))
    {
        return of_host(rest);
    }
    if git.starts_with('/') {
        return git.len() > 1 && !git.split('/').any(|part| part == "..");
    }
    // `USER@HOST:PATH`
    let short = git
        .split_once(':')
        .filter(|(host, path)| !host.contains('/') && !path.is_empty());
    short.is_some_and(|(host, _)| of_host(host) && host.contains('@'))
}
