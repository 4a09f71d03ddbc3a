//! `fndctl explain`: the meaning of a reason, an error code, a problem of the node or a key. Needs no daemon: core and manifest have the texts.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::problem::Code;
use fnd_core::explain::{REASONS, reason};
use fnd_core::node_problems::{NODE_PROBLEMS, node_problem};
use fnd_core::records::outcome::Reason;
use fnd_manifest::explain;
use fnd_manifest::schema::read::nearest;
use serde::Serialize;
use serde_json::json;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fndctl explain oom\n  fndctl explain queue-full\n  fndctl explain nats-down\n  fndctl explain retry.jitter"
)]
pub(crate) struct Args {
    /// A reason (`oom`), an error code (`queue-full`), a problem of the node (`nats-down`) or a key (`limits.memory`); without it, all words are listed.
    what: Option<String>,
}

/// Explains a word; without a word lists all of them.
///
/// # Errors
/// The word is not known.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let Some(what) = &args.what else {
        return list(context);
    };
    let found = explanations(what);
    if found.is_empty() {
        let help = match near(what) {
            Some(near) => format!("did you mean `{near}`? `fndctl explain` without a word lists all words"),
            None => "`fndctl explain` without a word lists all words".to_owned(),
        };
        let message = format!("there is no reason, error code, problem or key named `{what}`");
        return Err(CommandFailure::new(Exit::NoSuchThing, message).help(help));
    }
    let explained = ExplainedWord {
        word: what,
        meanings: found,
    };
    context.made(&explained, |out| out.line(&explained.meanings.join("\n\n")))
}

/// A word with every meaning that it has, in the form of `-o json`.
#[derive(Debug, Serialize)]
struct ExplainedWord<'a> {
    word: &'a str,
    meanings: Vec<String>,
}

/// States that `status` and `history` print and that are no reason and no error code.
const STATES: &[(&str, &str)] = fnd_manifest::texts! {
    "crash-looping":
        "The function was started several times and ended or failed each time, so fnd waits longer and longer between two starts. \
         `fndctl show F` has the cause, `fndctl logs F` its output; a new version of its file is tried at once.",
    "building": "Its packages are installed, or its code is compiled. `fndctl logs F --build` shows the output, `fndctl build F` tries it again.",
    "ready": "The function has a version that serves, and nothing of it runs now.",
    "queued": "The run waits for its turn: `fndctl history ID` shows since when, `pool.max` and `queue` of its manifest say how many run at once.",
    "waiting": "An attempt has failed, and the next one comes after a delay (`[retry]`).",
    "polling": "The run has asked to be executed again later (`[poll]`).",
};

/// Returns every meaning of a word: a reason and a code can have the same name.
fn explanations(what: &str) -> Vec<String> {
    let mut found = Vec::new();
    let word = match Reason::parse(what) {
        // These four codes have explanations of their own. All others are explained together.
        Some(Reason::Exit(code)) if ![0, 65, 75, 99].contains(&code) => "exit-N",
        Some(Reason::Signal(_)) => "signal-NAME",
        _ => what,
    };
    if let Some(meaning) = reason(word) {
        found.push(format!("{what}: a reason: how an attempt or a run ended\n{meaning}"));
    }
    let of_code = |code: Code| {
        let (name, status, meaning) = (code.as_str(), code.status(), code.meaning());
        format!("{name}: an error code of the API, HTTP status {status}\n{meaning}")
    };
    found.extend(Code::parse(what).map(of_code));
    for (meaning, kind) in [
        (
            explain::diagnostic(what),
            "a diagnostic of a manifest or the configuration",
        ),
        (
            node_problem(what),
            "a problem of the node, which `fndctl status` shows while it lasts",
        ),
    ] {
        found.extend(meaning.map(|meaning| format!("{what}: {kind}\n{meaning}")));
    }
    if let Ok(status) = what.parse::<u16>() {
        let codes = Code::all().filter(|code| code.status() == status);
        found.extend(codes.map(of_code));
    }
    let state = STATES.iter().find(|(state, _)| *state == what);
    found.extend(state.map(|(state, meaning)| format!("{state}: a state of a function or of a run\n{meaning}")));
    found.extend(explain::key(what).iter().map(explain::KeyText::text));
    found
}

fn list(context: &Context) -> Result<Exit, CommandFailure> {
    let keys = |file: &str| {
        let keys = explain::keys().into_iter().filter(|key| key.file == file);
        keys.map(|key| key.path).collect::<Vec<_>>()
    };
    let first = |table: &[(&str, &str)]| table.iter().map(|(word, _)| (*word).to_owned()).collect();
    let groups: [(&str, Vec<String>); 6] = [
        ("reasons", REASONS.iter().map(ToString::to_string).collect()),
        (
            "error codes of the API",
            Code::all().map(|code| code.as_str().to_owned()).collect(),
        ),
        ("diagnostics", first(explain::DIAGNOSTICS)),
        ("problems of the node", first(NODE_PROBLEMS)),
        ("keys of a function's manifest", keys("function.toml")),
        ("keys of fnd.toml", keys("fnd.toml")),
    ];
    let documents = groups
        .each_ref()
        .map(|(kind, words)| json!({"kind": kind, "words": words}));
    context.made(&documents, |out| {
        let groups = groups.iter();
        out.lines(groups.map(|(kind, words)| format!("{kind}: {}\n", words.join(" "))))
    })
}

/// Returns the explained word that is most similar to an unknown one.
fn near(word: &str) -> Option<String> {
    let keys = explain::keys();
    let words: Vec<&str> = keys
        .iter()
        .map(|key| key.path.as_str())
        .chain(REASONS.iter().copied())
        .chain(explain::DIAGNOSTICS.iter().map(|(code, _)| *code))
        .chain(NODE_PROBLEMS.iter().map(|(code, _)| *code))
        .chain(STATES.iter().map(|(state, _)| *state))
        .collect();
    // The table before a key is often left out.
    let last = |key: &'_ str| key.rsplit_once('.').map_or(key.to_owned(), |(_, last)| last.to_owned());
    let lasts: Vec<String> = keys.iter().map(|key| last(&key.path)).collect();
    let by_last = || {
        let lasts: Vec<&str> = lasts.iter().map(String::as_str).collect();
        let near = nearest(word, &lasts)?;
        keys.iter().map(|key| key.path.as_str()).find(|path| last(path) == near)
    };
    nearest(word, &words).or_else(by_last).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_codes_and_keys_are_explained() {
        for (what, words) in [
            ("oom", "limits.memory"),
            ("exit-3", "not_on_exit"),
            ("signal-SEGV", "signal"),
            ("queue-full", "429"),
            ("nats-down", "[events.nats]"),
            ("lease-lost", "another node"),
            ("retry.jitter", "equal"),
            ("node.max_workers", "fnd.toml"),
            ("jitter", "retry.jitter"),
            ("401", "unauthorized"),
            ("503", "unavailable"),
            ("crash-looping", "a new version"),
        ] {
            let found = explanations(what).join("\n");
            assert!(found.contains(words), "{what}: {found}");
        }
        assert!(explanations("retry.jiter").is_empty());
        assert_eq!(near("limits.memori").as_deref(), Some("limits.memory"));
        assert_eq!(near("memroy").as_deref(), Some("limits.memory"));
    }
}
