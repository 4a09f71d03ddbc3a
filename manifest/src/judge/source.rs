//! Finds where the code of a function comes from (`[source]`), and makes the plan that fetches it. The plan is one of fnd's
//! own function [`fnd_wire::plan::BUILD`], as that of an installation of dependencies.

use super::Judge;
use super::build::BuildPlan;
use super::entry::MANIFEST;
use crate::function::keys::SourceTable;
use crate::function::route::Credentials;
use crate::function::{BuildNetwork, HttpRoute};
use crate::resolve::FunctionProblems;
use crate::schema::tree::{self, TomlTable, find};
use fnd_wire::plan::{CodeLayout, JudgeFunction, PlannedBuild};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the code of a function comes from, in the verdict on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceOrigin {
    /// For people: `https://git.example.com/shop.git`.
    pub from: String,
    /// How often it is fetched again, in seconds; absent: only when a person asks for it.
    pub every_s: Option<u64>,
}

/// Beginning of the path at which pushes are told.
const PUSH: &str = "/fnd/push/";

/// A source, and the arguments of the program that fetches it.
struct Fetch {
    origin: SourceOrigin,
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
        own: &TomlTable,
        report: &mut FunctionProblems<'_>,
    ) -> Option<(SourceOrigin, Option<PlannedBuild>)> {
        let node = own.get("source")?;
        let source = written(own)?;
        let fetch = match fetch(&source) {
            Ok(fetch) => fetch,
            Err((key, message, help)) => {
                let written = find(own, &format!("source.{key}")).unwrap_or(node);
                report.error(Some(&written.at), "bad-value", message, help);
                return None;
            }
        };
        match &function.form {
            CodeLayout::Source => return Some((fetch.origin, None)),
            CodeLayout::Directory => {
                if let Some(other) = function.files.iter().find(|file| file.path != MANIFEST) {
                    let path = &other.path;
                    let message = format!("it has a source, and the directory has a file of its own: `{path}`");
                    report.impossible(Some(&node.at), message, "remove `[source]`, or the file");
                }
            }
            CodeLayout::File | CodeLayout::Archive(_) | CodeLayout::Foreign(_) => {
                let message = "`[source]` is only for a manifest without code beside it";
                let help = "remove `[source]`, or the file with the code";
                report.impossible(Some(&node.at), message, help);
            }
        }
        let mut phases = self
            .runtimes
            .iter()
            .filter_map(|runtime| Some((runtime, runtime.fetch.as_ref()?)));
        let Some((runtime, phase)) = phases.next() else {
            let message = "no runtime has a phase `fetch`, which `[source]` needs";
            let help = "the runtime `bash` that is shipped with fnd has it";
            report.error(Some(&node.at), "no-runtime", message, help);
            return None;
        };
        let task = BuildPlan {
            description: "Fetches the code of functions",
            // Another key is another version of the build: it must not get the secrets of the one before.
            made: serde_json::to_vec(&(&fetch.arguments, &source.key)).expect("texts only"),
            inputs: Vec::new(),
            phase,
            arguments: fetch.arguments,
            secrets: source.key.iter().map(|key| ("key".to_owned(), key.clone())).collect(),
            env: BTreeMap::new(),
            // `[build] network = "none"` is for packages, whose install scripts run code. git and curl run no code of
            // the repository.
            network: BuildNetwork::Host,
            shown: fetch.path,
            checked: None,
            fresh_for: source.git.is_some().then_some(fetch.origin.every_s).flatten(),
        };
        let build = self.build(task, runtime, None);
        Some((fetch.origin, build.filter(|_| !report.refused())))
    }
}

/// Returns `[source]`.
fn written(own: &TomlTable) -> Option<SourceTable> {
    Some(SourceTable::read(SourceTable::pick(tree::table(own, "source")?)))
}

/// Returns the route by which the server of a repository tells of pushes; `trusted`: whether root owns the manifest.
pub(super) fn push_route(
    function: &JudgeFunction,
    own: &TomlTable,
    trusted: bool,
    report: &mut FunctionProblems<'_>,
) -> Option<HttpRoute> {
    let source = written(own)?;
    let auth = find(own, "source.hook_auth");
    let hook = find(own, "source.hook").or_else(|| own.get("source"));
    let (node, code, message, help) = if !source.hook {
        let message = "`hook_auth` has no effect without `hook = true`";
        (Some(auth?), "impossible", message, "add it")
    } else if source.git.is_none() {
        (
            hook,
            "impossible",
            "`hook` is only for a source with `git`",
            "remove it",
        )
    } else if auth.is_none() {
        let message = "`hook` needs `hook_auth`: who may have the code fetched";
        let help = "write `hook_auth = \"github:SECRET\"`, or another form of `auth` in `[[http]]`";
        (hook, "missing-key", message, help)
    } else if !trusted && !source.hook_auth.0.is_empty() {
        let message = "only functions whose manifest belongs to root may name a secret";
        (
            auth,
            "not-trusted",
            message,
            "let root own the file (`chown root:root`)",
        )
    } else {
        return Some(fetching_route(function, source.hook_auth));
    };
    report.error(node.map(|node| &node.at), code, message, help);
    None
}

fn fetching_route(function: &JudgeFunction, auth: Credentials) -> HttpRoute {
    HttpRoute {
        fetches: true,
        ..HttpRoute::of_fnd(format!("{PUSH}{}", function.name.as_str()), auth)
    }
}

/// A mistake in `[source]`: its key, the message, and the help.
type WrongSource = (&'static str, String, &'static str);

fn fetch(source: &SourceTable) -> Result<Fetch, WrongSource> {
    let one = "write one of `git` and `url`";
    match (&source.git, &source.url) {
        (Some(git), None) => of_git(git, source),
        (None, Some(url)) => of_url(url, source),
        (None, None) => Err(("git", "`[source]` names no source".to_owned(), one)),
        (Some(_), Some(_)) => Err(("url", "`[source]` has both `git` and `url`".to_owned(), one)),
    }
}

/// Refuses keys that are only for the other kind of source.
fn foreign(other: &str, keys: &[(&'static str, bool)]) -> Result<(), WrongSource> {
    match keys.iter().find(|(_, written)| *written) {
        Some((key, _)) => Err((
            key,
            format!("`source.{key}` is only for a source with `{other}`"),
            "remove it",
        )),
        None => Ok(()),
    }
}

fn of_git(git: &str, source: &SourceTable) -> Result<Fetch, WrongSource> {
    foreign("url", &[("sha256", source.sha256.is_some())])?;
    if has_password(git) {
        let message = "`source.git` has a password, which everybody sees who may see the function".to_owned();
        return Err((
            "git",
            message,
            "store `USER:PASSWORD` as a secret, and name it with `key`",
        ));
    }
    if !is_repository(git) {
        let message = format!("`source.git`: `{}` is no address of a repository", git.escape_debug());
        let help = "write `https://HOST/PATH`, `ssh://USER@HOST/PATH`, `USER@HOST:PATH` or a path";
        return Err(("git", message, help));
    }
    let name = source.r#ref.as_deref().unwrap_or_default();
    // git would take the first for an option, and the second for a range of commits.
    if name.starts_with('-') || name.contains("..") {
        let message = format!("`source.ref`: `{name}` is no branch, tag or commit");
        return Err(("ref", message, "write its name"));
    }
    let dir = source.dir.clone().unwrap_or_default();
    let is_ssh = !git.starts_with("https://") && !git.starts_with('/');
    if !is_ssh && !source.known_hosts.is_empty() {
        let message = "`source.known_hosts` is only for a repository that is fetched by ssh".to_owned();
        return Err(("known_hosts", message, "remove it"));
    }
    if let Some(line) = source.known_hosts.iter().find(|line| !is_host_key(line)) {
        let message = format!(
            "`source.known_hosts`: `{}` is no line of `known_hosts`",
            line.escape_debug()
        );
        let help = "write the lines that `ssh-keyscan HOST` prints: `HOST TYPE KEY`";
        return Err(("known_hosts", message, help));
    }
    let mut arguments = vec!["git".to_owned(), git.to_owned(), name.to_owned(), dir];
    arguments.extend(source.known_hosts.iter().cloned());
    Ok(Fetch {
        origin: SourceOrigin {
            from: format!("{git} {name}").trim_end().to_owned(),
            // `as_secs` cuts off parts of a second: 500 ms must not become 0.
            every_s: source.every.map(|every| every.as_secs().max(1)),
        },
        arguments,
        // The sandbox of the fetching user hides most directories.
        path: git.starts_with('/').then(|| git.to_owned()),
    })
}

fn of_url(url: &str, source: &SourceTable) -> Result<Fetch, WrongSource> {
    let written = [
        ("key", source.key.is_some()),
        ("ref", source.r#ref.is_some()),
        ("dir", source.dir.is_some()),
        ("every", source.every.is_some()),
        ("known_hosts", !source.known_hosts.is_empty()),
    ];
    foreign("git", &written)?;
    if has_password(url) {
        let message = "`source.url` has a password, which everybody sees who may see the function".to_owned();
        return Err(("url", message, "use a server that needs none, or `git` with `key`"));
    }
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let path = host.and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
    let path = path.map(|path| path.split(['?', '#']).next().unwrap_or_default());
    let file = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    // The fetched file gets this name, so it must be a plain one.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if file.is_empty() || file.starts_with(['.', '-']) || !file.bytes().all(is_plain) || has_control(url) {
        let message = format!("`source.url`: `{}` names no file", url.escape_debug());
        let help = "write `https://HOST/PATH/FILE`; the name of the file says what it is: `.zip`, `.tar.gz`, `.py`";
        return Err(("url", message, help));
    }
    // `sha256sum`, with whose output the sum is compared, prints lower case.
    let sum = source.sha256.clone().unwrap_or_default().to_ascii_lowercase();
    if source.sha256.is_some() && (sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let message = "`source.sha256`: expected 64 hexadecimal digits".to_owned();
        return Err(("sha256", message, "`sha256sum FILE` prints them"));
    }
    if sum.is_empty() && url.starts_with("http://") {
        let message = "`source.url`: anybody on the way can change a file that comes by `http://`".to_owned();
        let help = "use `https://`, or write `sha256` (`sha256sum FILE` prints it)";
        return Err(("url", message, help));
    }
    Ok(Fetch {
        origin: SourceOrigin {
            from: url.to_owned(),
            every_s: None,
        },
        arguments: vec!["url".to_owned(), url.to_owned(), sum, file.to_owned()],
        path: None,
    })
}

/// Says whether an address has user and password before the host.
fn has_password(address: &str) -> bool {
    // `USER@HOST:PATH` has no place for a password.
    let host = address.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let user = host.and_then(|host| host.rsplit_once('@'));
    user.is_some_and(|(user, _)| user.contains(':'))
}

/// Says whether a text is a line of `known_hosts`, as of sshd(8): marker, hosts, type, key, comment.
fn is_host_key(line: &str) -> bool {
    let mut words = line.split(' ').filter(|word| !word.starts_with('@'));
    let is_host = |hosts: &str| !hosts.is_empty() && !hosts.starts_with('#');
    let in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    // The shortest key, of the type ed25519, has 68 characters.
    let is_key = |key: &str| key.len() > 20 && key.bytes().all(in_key);
    let has_host = words.next().is_some_and(is_host) && words.next().is_some();
    has_host && words.next().is_some_and(is_key) && !line.contains(char::is_control)
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
    if let Some(rest) = git.strip_prefix("https://").or_else(|| git.strip_prefix("ssh://")) {
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
