//! Words that a shell completes: names of functions, ids of recent runs, states and other words.
//!
//! A shell waits for them while somebody types, so a daemon that does not answer soon completes nothing, silently.

use crate::client::{Client, encode};
use crate::text;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use fnd_core::api::stream::Kind;
use fnd_core::api::{FunctionDetail, FunctionList, InvocationList, InvocationView, ReleaseList, ReleaseView};
use fnd_core::explain::REASONS;
use fnd_core::input::{Field, FieldKind};
use fnd_core::lifecycle::release::short;
use fnd_core::records::outcome::{RunState, Trigger};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_millis(150);

pub(crate) fn functions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let list: Option<FunctionList> = ask("/v1/functions");
        let functions = list.map(|list| list.functions).unwrap_or_default();
        let names = functions.iter().map(|function| function.function.to_string());
        names.map(CompletionCandidate::new).collect()
    })
}

/// Ids of recent runs, with their functions and states.
pub(crate) fn runs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let list: Option<InvocationList> = ask("/v1/invocations?limit=30");
        let runs = list.map(|list| list.invocations).unwrap_or_default();
        let now = Timestamp::now();
        let candidate = |run: &InvocationView| {
            let accepted = text::distance(Some(&run.accepted_at), now);
            let about = format!("{} {} {accepted}", run.function, run.state.as_str());
            CompletionCandidate::new(text::short(run.id)).help(Some(about.into()))
        };
        runs.iter().map(candidate).collect()
    })
}

/// Returns the words behind a verb of an unfinished command line: clap tells a completer nothing of them.
fn behind(verbs: &[&str]) -> Vec<String> {
    let mut words = std::env::args().skip_while(|word| !verbs.contains(&word.as_str()));
    words.next();
    words.collect()
}

/// Releases of the function that an unfinished command line names, with their states.
pub(crate) fn releases() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let named = behind(&["rollback", "undo", "pin", "diff"]);
        // The word that is being completed is empty at first.
        let function = named.iter().find(|word| !word.starts_with('-') && !word.is_empty());
        let list: Option<ReleaseList> =
            function.and_then(|function| ask(&format!("/v1/functions/{}/versions", encode(function))));
        let releases = list.map(|list| list.versions).unwrap_or_default();
        let candidate = |release: &ReleaseView| {
            CompletionCandidate::new(short(release.version))
                .help(Some(format!("{}, {}", release.state.as_str(), release.since).into()))
        };
        releases.iter().map(candidate).collect()
    })
}

/// Fields of the input of the function that an unfinished command line of `invoke` names, each with its `=`.
pub(crate) fn fields() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let named = behind(&["invoke"]);
        let function = named.first().filter(|word| !word.starts_with('-'));
        let detail: Option<FunctionDetail> =
            function.and_then(|function| ask(&format!("/v1/functions/{}", encode(function))));
        let schema = detail.and_then(|detail| detail.more.input);
        let fields = schema.as_ref().map(fnd_core::input::fields).unwrap_or_default();
        fields.iter().map(candidate_of_field).collect()
    })
}

fn candidate_of_field(field: &Field) -> CompletionCandidate {
    // Arrays and objects are written as JSON.
    let sign = match field.kind {
        FieldKind::Array | FieldKind::Object => ":=",
        FieldKind::String | FieldKind::Integer | FieldKind::Number | FieldKind::Boolean | FieldKind::Any => "=",
    };
    let about = field.description.as_deref().unwrap_or(field.kind.as_str()).to_owned();
    CompletionCandidate::new(format!("{}{sign}", field.name)).help(Some(about.into()))
}

/// Names of functions, then ids of recent runs.
pub(crate) fn functions_and_runs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let functions = functions().candidates().into_iter();
        functions.chain(runs().candidates()).collect()
    })
}

pub(crate) fn states() -> ArgValueCandidates {
    words(RunState::WORDS)
}

pub(crate) fn triggers() -> ArgValueCandidates {
    words(Trigger::WORDS)
}

/// Reasons of ends.
pub(crate) fn reasons() -> ArgValueCandidates {
    words(REASONS)
}

pub(crate) fn kinds() -> ArgValueCandidates {
    words(Kind::WORDS)
}

fn words(words: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(move || words.iter().map(CompletionCandidate::new).collect())
}

/// Returns an answer of the daemon that the command line names; nothing if there is none in time.
fn ask<T: DeserializeOwned>(path: &str) -> Option<T> {
    let (socket, user) = typed_socket(std::env::args());
    let client = Client::new(crate::socket(socket, user).ok()?, user);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.ok()?;
    // The shell stands still until the candidates are there.
    let reply = runtime.block_on(async { tokio::time::timeout(PATIENCE, client.get(path)).await });
    serde_json::from_slice(&reply.ok()?.ok()?.body).ok()
}

/// Returns the socket of an unfinished command line or of the environment, and whether the user's own fnd is meant.
fn typed_socket(words: impl Iterator<Item = String>) -> (Option<PathBuf>, bool) {
    let words: Vec<String> = words.collect();
    let user = words.iter().any(|word| word == "--user");
    let joined = words.iter().find_map(|word| word.strip_prefix("--socket="));
    let apart = words
        .iter()
        .position(|word| word == "--socket")
        .and_then(|place| words.get(place + 1));
    let typed = joined.or(apart.map(String::as_str)).map(PathBuf::from);
    let environment = || std::env::var_os("FND_SOCKET").filter(|_| !user).map(PathBuf::from);
    (typed.or_else(environment), user)
}

#[cfg(test)]
mod tests {
    use crate::common::candidates::*;

    #[test]
    fn the_socket_of_an_unfinished_command_line() {
        for (line, socket, user) in [
            ("fndctl --socket /a show", Some("/a"), false),
            ("fndctl show --socket=/b ", Some("/b"), false),
            ("fndctl --user show", None, true),
        ] {
            let words = line.split(' ').map(str::to_owned);
            assert_eq!(typed_socket(words), (socket.map(PathBuf::from), user), "{line}");
        }
    }
}
