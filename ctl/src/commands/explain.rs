//! `fndctl explain`: the meaning of a reason, an error code, a problem of the node or a key. Needs no daemon: core and manifest have the texts.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::problem::Code;
use fnd_core::explain::{REASONS, reason};
use fnd_core::node_problems::{NODE_PROBLEMS, node_problem};
use fnd_core::records::outcome::Reason;
use fnd_manifest::explain;
use fnd_manifest::schema::read::nearest;

/// Options.
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
        list(context)?;
        return Ok(Exit::Fine);
    };
    let found = explanations(what);
    if found.is_empty() {
        let help = match near(what) {
            Some(near) => format!("did you mean `{near}`? `fndctl explain` without a word lists all words"),
            None => "`fndctl explain` without a word lists all words".to_owned(),
        };
        return Err(CommandFailure::new(
            Exit::NoSuchThing,
            format!("there is no reason, error code, problem or key named `{what}`"),
        )
        .help(&help));
    }
    context.out.line(&found.join("\n\n"))?;
    Ok(Exit::Fine)
}

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
    if let Some(code) = Code::parse(what) {
        let (status, meaning) = (code.status(), code.meaning());
        found.push(format!(
            "{what}: an error code of the API, HTTP status {status}\n{meaning}"
        ));
    }
    if let Some(meaning) = explain::diagnostic(what) {
        found.push(format!(
            "{what}: a diagnostic of a manifest or the configuration\n{meaning}"
        ));
    }
    if let Some(meaning) = node_problem(what) {
        found.push(format!(
            "{what}: a problem of the node, which `fndctl status` shows while it lasts\n{meaning}"
        ));
    }
    found.extend(explain::key(what).iter().map(explain::KeyText::text));
    found
}

fn list(context: &Context) -> Result<(), CommandFailure> {
    let codes: Vec<&str> = Code::all().map(Code::as_str).collect();
    let diagnostics: Vec<&str> = explain::DIAGNOSTICS.iter().map(|(code, _)| *code).collect();
    let problems: Vec<&str> = NODE_PROBLEMS.iter().map(|(code, _)| *code).collect();
    let keys = |file: &str| {
        let keys = explain::keys().into_iter().filter(|key| key.file == file);
        keys.map(|key| key.path).collect::<Vec<_>>().join(" ")
    };
    for (what, words) in [
        ("reasons", REASONS.join(" ")),
        ("error codes of the API", codes.join(" ")),
        ("diagnostics", diagnostics.join(" ")),
        ("problems of the node", problems.join(" ")),
        ("keys of a function's manifest", keys("function.toml")),
        ("keys of fnd.toml", keys("fnd.toml")),
    ] {
        context.out.line(&format!("{what}: {words}\n"))?;
    }
    Ok(())
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
        ] {
            let found = explanations(what).join("\n");
            assert!(found.contains(words), "{what}: {found}");
        }
        assert!(explanations("retry.jiter").is_empty());
        assert_eq!(near("limits.memori").as_deref(), Some("limits.memory"));
        assert_eq!(near("memroy").as_deref(), Some("limits.memory"));
    }
}
