//! Facts in words, for the trace.

use super::facts::{Commit, Death, Fact};
use super::spawner::contents::SourceContent;
use fnd_wire::frame::{Install, Request, STORED, Spawn};
use fnd_wire::ids::Version;
use fnd_wire::plan::is_own;
use std::fmt;

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Life(number) => write!(f, "fnd {number} begins"),
            Self::Death(Death::Killed) => f.write_str("fnd is dead; the spawner and its workers go on"),
            Self::Death(Death::Stopped) => f.write_str("fnd has stopped in order"),
            Self::Death(Death::Both) => f.write_str("fnd, the spawner and all workers are dead"),
            Self::Death(Death::PowerCut) => f.write_str("the machine has lost its power, and starts anew"),
            Self::SpawnerEnded => f.write_str("the spawner and all workers are dead"),
            Self::Asked(number, act) => write!(f, "act {number}: {act:?}"),
            Self::Answered(told) => write!(f, "act {} is told: {:?}", told.number, told.heard),
            Self::Requested(number, request) => {
                write!(f, "fnd asks the spawner, request {number}: ")?;
                requested(f, request)
            }
            Self::Started(started) => {
                let (worker, function) = (started.worker, &started.function);
                write!(f, "{worker} begins: {function}, {}", SourceContent::of(started.version))
            }
            Self::Began(began) => {
                let (function, worker, invocation) = (&began.function, began.worker, began.invocation);
                write!(
                    f,
                    "{function} sees attempt {} of {invocation} in {worker}",
                    began.attempt
                )
            }
            Self::Over(invocation, attempt) => write!(f, "attempt {attempt} of {invocation} is over in its function"),
            Self::Gone(worker) => write!(f, "{worker} is gone"),
            Self::Committed(commit) => committed(f, *commit),
            Self::ClockStepped(step_ms) => write!(f, "the wall clock was set by {step_ms} ms"),
            Self::Violation(why) => write!(f, "fnd asks the spawner for what it must not: {why}"),
            Self::Defect(text) => write!(f, "fnd reports {text}"),
        }
    }
}

fn committed(f: &mut fmt::Formatter<'_>, commit: Commit) -> fmt::Result {
    f.write_str(match (commit.is_done, commit.is_denied) {
        (true, false) => "the ledger has committed",
        (true, true) => "the ledger has committed, and fnd is told that it has failed",
        (false, _) => "the commit has failed",
    })?;
    if commit.is_done && !commit.is_synced {
        f.write_str(" (not synced: a power cut undoes it)")?;
    }
    Ok(())
}

fn requested(f: &mut fmt::Formatter<'_>, request: &Request) -> fmt::Result {
    let install = |f: &mut fmt::Formatter<'_>, verb: &str, install: &Install| {
        let function = &install.function;
        match Version::parse(&install.source).filter(|_| install.directory == STORED) {
            Some(version) => write!(
                f,
                "{verb} the stored version of {function}, {}",
                SourceContent::of(version)
            ),
            None => write!(f, "{verb} the file of {function}"),
        }
    };
    let start = |f: &mut fmt::Formatter<'_>, verb: &str, spawn: &Spawn| {
        let (worker, content, invocation) = (spawn.worker, SourceContent::of(spawn.version), spawn.invocation);
        write!(f, "{verb} {worker}: {content}, for {invocation}")
    };
    match request {
        Request::Install(it) => install(f, "Install", it),
        Request::Fetch(it) => install(f, "Fetch", it),
        Request::Check(it) => install(f, "Check", it),
        Request::Rebuild(it) => install(f, "Rebuild", it),
        Request::Files(it) => install(f, "Files of", it),
        Request::Spawn(spawn) => start(f, "Spawn", spawn),
        Request::Watch(spawn) => start(f, "Watch", spawn),
        Request::Measure(spawn) => start(f, "Measure", spawn),
        Request::Term(worker) => write!(f, "Term {worker}"),
        Request::Kill(worker) => write!(f, "Kill {worker}"),
        Request::Acknowledge(worker) => write!(f, "Acknowledge the end of {worker}"),
        Request::AdoptionRecord(kept) => {
            write!(f, "AdoptionRecord of {}, {} bytes", kept.worker, kept.record.0.len())
        }
        Request::Lease(lease) => match lease.until_ms {
            Some(until_ms) => write!(f, "Lease of {} until {until_ms} ms", lease.worker),
            None => write!(f, "Lease of {} ends, not the worker", lease.worker),
        },
        Request::Release(release) => write!(f, "Release the files of {}", release.invocation),
        Request::Prune(prune) if is_own(prune.function.as_str()) => write!(f, "Prune {}", prune.function),
        Request::Prune(prune) => {
            let keep: Vec<_> = prune.keep.iter().map(|version| SourceContent::of(*version).0).collect();
            write!(f, "Prune {}, keep the contents {keep:?}", prune.function)
        }
        Request::Seal(seal) => write!(
            f,
            "Seal {}, {}",
            seal.function,
            if seal.tree.is_some() { "a tree" } else { "empty" }
        ),
        Request::Remove(function) => write!(f, "Remove {function}"),
        Request::Sweep(sweep) => write!(f, "Sweep, {} invocations are known", sweep.invocations.len()),
        Request::Hello(_)
        | Request::Reload
        | Request::Ping
        | Request::Secret(_)
        | Request::PruneTrees(_)
        | Request::Retire(_) => write!(f, "{request:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::frame::{Lease, Prune, SealTree};
    use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};

    #[test]
    fn facts_are_said_in_words() {
        let check = |fact: Fact, words: &str| assert_eq!(fact.to_string(), words);
        check(Fact::Life(3), "fnd 3 begins");
        check(Fact::Gone(WorkerId(7)), "w7 is gone");
        let over = Fact::Over(InvocationId(1), 2).to_string();
        assert!(
            over.starts_with("attempt 2 of 0") && over.ends_with(" is over in its function"),
            "{over}"
        );
        let commit = Commit {
            is_done: true,
            is_denied: true,
            is_synced: false,
            is_complete: true,
        };
        check(
            Fact::Committed(commit),
            "the ledger has committed, and fnd is told that it has failed (not synced: a power cut undoes it)",
        );
        let function = FunctionName::new("f1").unwrap();
        let keep = vec![SourceContent(9).version(0)];
        let prune = Request::Prune(Prune {
            function: function.clone(),
            keep,
        });
        check(
            Fact::Requested(4, prune),
            "fnd asks the spawner, request 4: Prune f1, keep the contents [9]",
        );
        let seal = Request::Seal(SealTree { function, tree: None });
        check(
            Fact::Requested(5, seal),
            "fnd asks the spawner, request 5: Seal f1, empty",
        );
        let lease = |until_ms| {
            Request::Lease(Lease {
                worker: WorkerId(7),
                until_ms,
            })
        };
        check(
            Fact::Requested(6, lease(Some(23_000))),
            "fnd asks the spawner, request 6: Lease of w7 until 23000 ms",
        );
        check(
            Fact::Requested(7, lease(None)),
            "fnd asks the spawner, request 7: Lease of w7 ends, not the worker",
        );
        assert_eq!(SourceContent(48).to_string(), "content 48 (Script, Hasty)");
    }
}
