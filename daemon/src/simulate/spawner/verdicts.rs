//! The verdicts of the real judge on the contents of files, and on the configuration.

use super::contents::SourceContent;
use fnd_manifest::judge::Judge;
use fnd_wire::form::Bytes;
use fnd_wire::frame::SettingsRead;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings, JudgedFile};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The configuration of every node. Without a number here, the memory of the real machine would decide which functions may run.
/// Without homes and caches, no program of fnd has to measure them.
const SETTINGS: &str = "[node]\nmemory = \"4G\"\nmax_workers = 12\n[build]\njobs = 2\n\
    [defaults.limits]\nhome = \"none\"\ncache = \"none\"\n";

/// The judge's verdict on a content.
pub(super) struct ContentVerdict {
    pub(super) document: Bytes,
    pub(super) is_accepted: bool,
    /// The document about the run that builds its dependencies, or checks its syntax; absent if there is nothing to do.
    pub(super) run: Option<Bytes>,
}

/// The judge of a node, with the verdicts that it has given. The same question always has the same answer, and an answer takes
/// longer than everything else that an installation does here.
struct Verdicts {
    judge: Judge,
    settings: Bytes,
    known: BTreeMap<(FunctionName, SourceContent, bool), Rc<ContentVerdict>>,
}

thread_local! {
    /// By the name that the node has in `[events.nats]`, if its configuration has that.
    static VERDICTS: RefCell<BTreeMap<Option<String>, Verdicts>> = const { RefCell::new(BTreeMap::new()) };
}

fn with_verdicts<T>(node: Option<&str>, read: impl FnOnce(&mut Verdicts) -> T) -> T {
    VERDICTS.with_borrow_mut(|all| {
        let verdicts = all.entry(node.map(str::to_owned));
        read(verdicts.or_insert_with(|| Verdicts::new(node)))
    })
}

/// Judges a content of a function, or prepares the check of its syntax.
pub(super) fn judge(
    node: Option<&str>,
    function: &FunctionName,
    content: SourceContent,
    is_check: bool,
) -> Rc<ContentVerdict> {
    with_verdicts(node, |verdicts| verdicts.judge(function, content, is_check))
}

/// Returns the verdict on the configuration of a node, as the frame for fnd.
pub(super) fn settings(node: Option<&str>) -> SettingsRead {
    SettingsRead {
        document: with_verdicts(node, |verdicts| verdicts.settings.clone()),
        problems: Vec::new(),
        applied: true,
    }
}

impl Verdicts {
    fn new(node: Option<&str>) -> Self {
        let of_node = |node| format!("[events.nats]\nservers = \"nats://n1:4222\"\nnode = \"{node}\"\n");
        let text = format!("{SETTINGS}{}", node.map(of_node).unwrap_or_default());
        let settings = JudgeRequest::Settings(JudgeSettings {
            files: vec![judged_file("/etc/fnd/fnd.toml".to_owned(), &text)],
            runtimes: runtimes(),
        });
        let mut judge = Judge::new();
        let JudgeReply::Settings(read) = judge.answer(&settings) else {
            unreachable!("settings are answered with settings");
        };
        assert!(read.verdict.policy.is_some(), "the configuration has no error");
        Self {
            judge,
            settings: read.verdict.document,
            known: BTreeMap::new(),
        }
    }

    fn judge(&mut self, function: &FunctionName, content: SourceContent, is_check: bool) -> Rc<ContentVerdict> {
        let key = (function.clone(), content, is_check);
        if let Some(known) = self.known.get(&key) {
            return Rc::clone(known);
        }
        let manifest = content.manifest(function);
        let asked = JudgeFunction {
            name: function.clone(),
            files: vec![judged_file(
                format!("/functions/{}.py", function.as_str()),
                &content.code(),
            )],
            manifest: (!manifest.is_empty())
                .then(|| judged_file(format!("/functions/{}.toml", function.as_str()), &manifest)),
            form: CodeLayout::File,
        };
        let request = if is_check {
            JudgeRequest::Check(asked)
        } else {
            JudgeRequest::Function(asked)
        };
        let JudgeReply::Function(judgment) = self.judge.answer(&request) else {
            unreachable!("a function is answered with a function");
        };
        let judged = Rc::new(ContentVerdict {
            is_accepted: judgment.verdict.plan.is_some(),
            document: judgment.verdict.document,
            run: judgment.build.map(|build| build.document),
        });
        self.known.insert(key, Rc::clone(&judged));
        judged
    }
}

/// Returns the runtimes that are installed.
pub(crate) fn runtimes() -> Vec<JudgedFile> {
    let runtime = |(id, text): (&str, &str)| judged_file(format!("/runtimes/{id}/runtime.toml"), text);
    let all = [
        ("bash", include_str!("../../../../runtimes/bash/runtime.toml")),
        ("python", include_str!("../../../../runtimes/python/runtime.toml")),
    ];
    all.map(runtime).into()
}

/// Returns a file of root, for the judge.
pub(crate) fn judged_file(path: String, text: &str) -> JudgedFile {
    JudgedFile {
        path,
        bytes: Bytes(text.as_bytes().to_vec()),
        mode: 0o644,
        trusted: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::spawner::contents::{Fate, MESSAGE_FUNCTIONS};
    use fnd_manifest::judge::Verdict;

    #[test]
    fn the_judge_refuses_those_contents_only_that_are_to_be_refused() {
        let name = FunctionName::new("f").unwrap();
        for content in (0..=u8::MAX).map(SourceContent) {
            let judged = judge(None, &name, content, false);
            let verdict: Verdict = serde_json::from_slice(&judged.document.0).unwrap();
            let is_refused = content.fate() == Fate::Refused;
            assert_eq!(
                judged.is_accepted, !is_refused,
                "{content:?}: {:?}",
                verdict.diagnostics
            );
            assert_eq!(judged.run.is_some(), content.has_tree(), "{content:?}");
        }
    }

    #[test]
    fn functions_of_messages_are_accepted_where_the_node_has_a_server() {
        for function in MESSAGE_FUNCTIONS {
            let name = FunctionName::new(function.name).unwrap();
            for content in [0, 1].map(SourceContent) {
                let judged = judge(Some("vm1"), &name, content, false);
                let verdict: Verdict = serde_json::from_slice(&judged.document.0).unwrap();
                assert!(judged.is_accepted, "{}: {:?}", function.name, verdict.diagnostics);
            }
        }
    }
}
