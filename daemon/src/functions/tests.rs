use super::*;
use crate::functions::catalog::{CatalogEvent, CatalogPaths, WalkRules};
use crate::functions::install::{CatalogChange, Judged, read_document};
use crate::functions::registry::Registry;
use crate::functions::syntax::NodeFacts;
use fnd_core::access::Author;
use fnd_core::lifecycle::SourceFiles;
use fnd_manifest::judge::{Judge, Verdict};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, Problem, Refused, Request};
use fnd_wire::ids::{FunctionId, FunctionName, Version};
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings, JudgedFile};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

fn functions() -> (Functions, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let places = CatalogPaths {
        directories: vec![dir.path().to_owned()],
        held: dir.path().join("held"),
        remembered: Vec::new(),
        marks: dir.path().to_owned(),
    };
    let catalog = Catalog::start(places, WalkRules::default(), |_| {}).unwrap();
    (Functions::new(catalog, Versions::default()), dir)
}

fn candidate(name: &str) -> SourceFiles {
    SourceFiles {
        function: FunctionName::new(name).unwrap(),
        directory: 0,
        source: format!("{name}.sh"),
        sidecar: None,
        directory_form: false,
    }
}

/// The judge's document about a script.
fn document(name: &FunctionName) -> Bytes {
    document_of(name, "echo\n")
}

fn document_of(name: &FunctionName, code: &str) -> Bytes {
    let file = |path: &str, text: &str| JudgedFile {
        path: path.into(),
        bytes: Bytes(text.into()),
        mode: 0o644,
        trusted: true,
    };
    let mut judge = Judge::new();
    let runtime = include_str!("../../../runtimes/bash/runtime.toml");
    let settings = JudgeSettings {
        files: vec![],
        runtimes: vec![file("runtime.toml", runtime)],
    };
    judge.settings(&settings);
    let function = JudgeFunction {
        name: name.clone(),
        files: vec![file("/f/x.sh", code)],
        manifest: None,
        form: CodeLayout::File,
    };
    let JudgeReply::Function(verdict) = judge.answer(&JudgeRequest::Function(function)) else {
        panic!("it judges a function");
    };
    verdict.verdict.document
}

fn node() -> NodeFacts<'static> {
    NodeFacts {
        host: "node",
        now_ms: 0,
        dirs: &[],
        uploads: std::path::Path::new(""),
        own_uid: None,
        can_check: true,
    }
}

fn installed(name: &FunctionName) -> Installed {
    Installed {
        function: name.clone(),
        id: FunctionId(1),
        version: Version([1; 32]),
        load_key: Version([2; 32]),
        interpreter: String::new(),
        uid: 70_000,
        warnings: Vec::new(),
        document: document(name),
    }
}

fn refused(name: &FunctionName) -> Refused {
    let problem = Problem {
        file: "/f/x.sh".to_owned(),
        message: "no room".to_owned(),
        help: String::new(),
    };
    Refused {
        function: name.clone(),
        problems: vec![problem],
        document: None,
    }
}

#[test]
fn equal_manifests_are_stored_once_and_shown_with_their_own_entry() {
    let mut registry = Registry::default();
    for name in ["a", "b"] {
        let candidate = candidate(name);
        let installed = installed(&candidate.function);
        let mut verdict: Verdict = read_document(&installed.document).unwrap();
        verdict.manifest.as_mut().unwrap().entry.clone_from(&candidate.source);
        registry.installed(candidate, &installed, verdict, None);
    }
    let serving = |name| {
        let function = registry.get(&FunctionName::new(name).unwrap());
        function.unwrap().newest.as_ref().unwrap()
    };
    assert_eq!(serving("a").whole_manifest().entry, "a.sh");
    assert_eq!(serving("b").whole_manifest().entry, "b.sh");
    let [a, b] = ["a", "b"].map(|name| Arc::clone(&serving(name).manifest));
    assert!(Arc::ptr_eq(&a, &b));
    assert!(Arc::ptr_eq(
        &registry.rules(&a, node().host),
        &registry.rules(&b, node().host)
    ));
}

/// Asks for the installation of what waits, as request 1.
fn ask(functions: &mut Functions) -> FunctionName {
    let (request, candidate) = functions.next_install().expect("one waits");
    assert!(matches!(request, Request::Install(install) if install.source == candidate.source));
    let name = candidate.function.clone();
    functions.installer.asked(1, candidate);
    name
}

#[tokio::test]
async fn an_answer_counts_when_the_files_are_still_the_same() {
    let (mut functions, _dir) = functions();
    for same in [false, true] {
        assert!(
            functions
                .catalog_event(CatalogEvent::Changed(vec![candidate("x")]))
                .is_empty()
        );
        let name = ask(&mut functions);
        assert!(functions.next_install().is_none());
        functions.judged(1, Judged::Installed(Box::new(installed(&name)), None));
        let changes = functions.catalog_event(CatalogEvent::Confirmed(1, same));
        assert_eq!(
            matches!(changes[..], [CatalogChange::Confirmed(1, Judged::Installed(_, None))]),
            same
        );
        assert_eq!(
            functions.installer.is_idle(),
            !same,
            "a dropped answer is waited for no longer"
        );
    }
    assert!(
        functions.catalog_event(CatalogEvent::Confirmed(1, true)).is_empty(),
        "once"
    );
}

#[tokio::test]
async fn a_script_that_runs_as_it_is_there_waits_until_the_directories_are_quiet() {
    let (mut functions, _dir) = functions();
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    let name = ask(&mut functions);
    let change = functions.installed(1, installed(&name), |_| None, node());
    let Some(CatalogChange::Installed(event, _)) = change else {
        panic!("{change:?}");
    };
    assert_eq!(
        (&event.function, event.version, event.rules.run_on_load),
        (&name, Version([1; 32]), true)
    );
    assert!(!functions.has_settled());
    functions.catalog_event(CatalogEvent::Quiet);
    assert!(functions.has_settled());
    assert!(!functions.has_settled(), "once");
    assert_eq!(functions.announcement(), "functions: 1");
    let gone = functions.catalog_event(CatalogEvent::Removed(vec![name.clone()]));
    assert!(matches!(&gone[..], [CatalogChange::Removed(gone)] if *gone == name));
    assert_eq!(functions.announcement(), "functions: 0");
}

#[tokio::test]
async fn an_installation_that_failed_keeps_its_reason() {
    let (mut functions, _dir) = functions();
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    let name = ask(&mut functions);
    let change = functions.failed(1, "No space left on device", Duration::from_secs(100));
    let Some(CatalogChange::Refused { error, .. }) = change else {
        panic!("{change:?}");
    };
    assert_eq!(error, "error: it could not be installed: No space left on device");
    let kept = functions.registry.get(&name).unwrap().findings.error.clone();
    assert_eq!(kept.as_deref(), Some(error.as_str()));
}

#[tokio::test]
async fn a_retry_that_is_refused_again_is_not_reported_again() {
    let (mut functions, _dir) = functions();
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    let mut mono = Duration::from_secs(100);
    for first in [true, false] {
        let name = ask(&mut functions);
        let change = functions.refused(1, refused(&name), mono);
        let Some(CatalogChange::Refused {
            error, report, serving, ..
        }) = change
        else {
            panic!("{change:?}");
        };
        assert_eq!((error.contains("no room"), report, serving), (true, first, false));
        mono = functions.installer.next_due().unwrap();
        functions.installer.try_again(mono);
    }
    assert_eq!(
        functions.announcement(),
        "functions: 1, with errors: 1 (`fndctl status` shows them)"
    );
}

#[tokio::test]
async fn whoever_waits_for_a_scan_waits_for_what_it_saw() {
    let (mut functions, _dir) = functions();
    let (sender, mut settled) = oneshot::channel();
    let scan = functions.installer.new_scan();
    functions.settling.push((scan, sender));
    functions.reloading = true;
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    let changes = functions.catalog_event(CatalogEvent::Scanned(scan));
    assert!(matches!(changes[..], [CatalogChange::Rescanned]));
    assert!(!functions.wake_settled(false), "one is to be installed");
    let name = ask(&mut functions);
    functions.installed(1, installed(&name), |_| None, node());
    assert!(!functions.wake_settled(true), "the configuration is not read");
    assert!(settled.try_recv().is_err());
    assert!(functions.wake_settled(false));
    assert_eq!(settled.try_recv(), Ok(()));
    assert!(!functions.wake_settled(false), "once");
}

#[tokio::test]
async fn a_problem_is_in_the_report_of_one_reload() {
    let (mut functions, _dir) = functions();
    let before = functions.versions_now();
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    let name = ask(&mut functions);
    functions.refused(1, refused(&name), Duration::ZERO);
    let report = functions.report(&before);
    assert_eq!(
        (report.diagnostics.len(), report.still_invalid.len()),
        (1, 0),
        "{report:?}"
    );
    let report = functions.report(&before);
    assert_eq!(
        (report.diagnostics.len(), report.still_invalid),
        (0, vec![name.clone()])
    );
    functions.catalog_event(CatalogEvent::Changed(vec![candidate("x")]));
    ask(&mut functions);
    functions.installed(1, installed(&name), |_| None, node());
    let report = functions.report(&before);
    assert_eq!((report.applied, report.still_invalid.len()), (vec![name.clone()], 0));
    let before = functions.versions_now();
    functions.catalog_event(CatalogEvent::Removed(vec![name.clone()]));
    assert_eq!(functions.report(&before).removed, [name]);
}

/// Rules that follow from all manifests together are made anew only when one of the manifests has changed.
#[test]
fn an_edit_of_the_code_alone_changes_no_manifest() {
    const KEEPS: &str = "# /// fnd\n# [history]\n# keep = 5\n# ///\n";
    let mut registry = Registry::default();
    let name = FunctionName::new("f").unwrap();
    let mut number = 0;
    let mut changed = |registry: &mut Registry, code: &str| {
        let before = Version([number; 32]);
        number += 1;
        let version = Version([number; 32]);
        let answer = Installed {
            version,
            ..installed(&name)
        };
        let verdict = read_document(&document_of(&name, code)).unwrap();
        registry.installed(candidate("f"), &answer, verdict, Some(before));
        assert!(registry.take_changed());
        registry.take_manifests_changed()
    };
    assert!(changed(&mut registry, "echo 1\n"), "it came");
    assert!(!changed(&mut registry, "echo 2\n"));
    assert!(!changed(&mut registry, "echo 3\n"));
    assert!(changed(&mut registry, &format!("{KEEPS}echo 3\n")), "another manifest");
    assert!(
        changed(&mut registry, &format!("{KEEPS}echo 4\n")),
        "the version before has lost its manifest"
    );
    assert!(!changed(&mut registry, &format!("{KEEPS}echo 5\n")));
    registry.remove(&name);
    assert!(registry.take_manifests_changed(), "it is gone");
}

/// A table of many routes takes some milliseconds, in which fnd serves nobody.
#[tokio::test]
async fn an_edit_of_a_function_without_routes_leaves_the_table_of_routes() {
    let (mut functions, _dir) = functions();
    let mut number = 0;
    let mut edit = |functions: &mut Functions, name: &str, code: &str| {
        number += 1;
        let candidate = candidate(name);
        let answer = Installed {
            version: Version([number; 32]),
            ..installed(&candidate.function)
        };
        let verdict: Verdict = read_document(&document_of(&candidate.function, code)).unwrap();
        let manifest = verdict.manifest.clone();
        functions.registry.installed(candidate.clone(), &answer, verdict, None);
        functions
            .routes
            .set(&candidate.function, Author::Root, manifest.as_ref());
    };
    let paths = |functions: &mut Functions| functions.route_table(|_| None);
    const AT_X: &str = "# /// fnd\n# [[http]]\n# path = \"/x\"\n# auth = \"none\"\n# ///\necho\n";
    edit(&mut functions, "web", AT_X);
    let first = paths(&mut functions);
    let [web, job] = ["web", "job"].map(|name| FunctionName::new(name).unwrap());
    assert!(first.has(&web) && !first.has(&job));
    edit(&mut functions, "job", "echo 1\n");
    functions.serves_another(&job);
    assert!(Rc::ptr_eq(&first, &paths(&mut functions)));
    edit(&mut functions, "web", AT_X);
    let second = paths(&mut functions);
    assert!(!Rc::ptr_eq(&first, &second) && second.has(&web));
    functions.serves_another(&web);
    assert!(!Rc::ptr_eq(&second, &paths(&mut functions)));
    edit(&mut functions, "web", "echo without routes\n");
    assert!(!paths(&mut functions).has(&web), "it had one");
    edit(&mut functions, "job", &AT_X.replace("/x", "/y"));
    assert!(paths(&mut functions).has(&job), "it has one now");
}
