//! Facts go in, and the orders are compared.
//!
//! Files:
//! - `cancelled_builds`: builds that are asked for while a cancelled one ends
//! - `clean_builds`: builds from scratch that a person asks for
//! - `copies`: releases that are held, renewed or revived by their copies
//! - `disturbed_builds`: builds that another process disturbs
//! - `kept_versions`: versions that stay on the disk

mod cancelled_builds;
mod clean_builds;
mod copies;
mod disturbed_builds;
mod kept_versions;

use super::answers::read_document;
use super::builds::Lane;
use super::installer::RequestKind;
use super::order::Order;
use super::registry::Registry;
use super::waiting_builds::BuildEnd;
use super::*;
use crate::run::Event;
use fnd_manifest::judge::{Judge, Verdict};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, NeedsBuild, Problem, Refused, SET_ASIDE};
use fnd_wire::ids::{FunctionId, InvocationId};
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings, JudgedFile};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn candidate(name: &str) -> SourceFiles {
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

fn node(seconds: u64) -> NodeFacts<'static> {
    NodeFacts {
        host: "node",
        now: Now {
            mono: Duration::from_secs(seconds),
            unix_ms: seconds * 1000,
        },
        dirs: &[],
        is_spawner_of_0_1: false,
        lanes: 1,
        internal_memory: &|| u64::MAX,
        is_live: &|_| false,
        is_cancelled: &|_| false,
        author: &|_, _| Author::Root,
    }
}

fn lifecycle() -> Lifecycle {
    Lifecycle::new(Vec::new(), Versions::default(), str::to_owned)
}

/// Returns the orders about versions, in words.
fn spelled(orders: &[Order]) -> String {
    let number = |version: Version| version.0[0];
    let word = |order: &Order| match order {
        Order::Confirm(request, files) => Some(format!("confirm {request} {}", files.source)),
        Order::Rescan(number) => Some(format!("rescan {number}")),
        Order::Serve(installed, None) => Some(format!("serve {}", number(installed.version))),
        Order::Serve(installed, Some(percent)) => Some(format!("share {} {percent}", number(installed.version))),
        Order::Supervise(Event::Refused { error, .. }) => Some(format!("refuse {error}")),
        Order::ReportRefused(_, _, serving) => Some(format!("report, serving {serving}")),
        Order::Answer(caller, outcome) => Some(format!("answer {caller} {:?}", outcome.clone().map(number))),
        Order::UploadSeen(_, seen) => Some(format!("upload {seen:?}")),
        Order::Prune(_) => Some("prune".to_owned()),
        Order::StoreVersions(_, installed) => Some(format!("store {}", installed.len())),
        Order::Status(_) => Some("status".to_owned()),
        Order::Remove(_) => Some("remove".to_owned()),
        Order::Settle => Some("settle".to_owned()),
        _ => None,
    };
    let words: Vec<_> = orders.iter().filter_map(word).collect();
    words.join(", ")
}

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

/// Asks for the installation of what waits, as request 1. Returns what is installed: a file, or the copy of a version.
fn ask(lifecycle: &mut Lifecycle) -> String {
    let Some((request, files)) = lifecycle.next_request(false) else {
        return "nothing".to_owned();
    };
    let source = match files.copy() {
        Some(version) => format!("copy {}", version.0[0]),
        None => files.source.clone(),
    };
    lifecycle.asked(1, &request, files);
    source
}

/// Lets the spawner answer the request about a file, which is as it was.
fn answer(lifecycle: &mut Lifecycle, judged: InstallAnswer, seconds: u64) -> String {
    let mut out = Vec::new();
    lifecycle.judged(1, judged, node(seconds), &mut out);
    if let [Order::Confirm(..)] = out[..] {
        out.clear();
        lifecycle.confirmed(1, true, node(seconds), &mut out);
    }
    spelled(&out)
}

/// Lets the spawner install this version of the file or the copy of `f` that was asked for. Its syntax is not checked.
fn install(lifecycle: &mut Lifecycle, version: u8) -> String {
    let version = Version([version; 32]);
    let installed = Installed {
        version,
        load_key: version,
        document: document_of(&name("f"), "# /// fnd\n# [release]\n# check = false\n# ///\necho\n"),
        ..installed(&name("f"))
    };
    answer(lifecycle, InstallAnswer::Installed(Box::new(installed), None), 0)
}

/// Has a version serve that was installed, as the supervisor says it.
fn serves(lifecycle: &mut Lifecycle, version: u8) -> String {
    let mut out = Vec::new();
    lifecycle.serves(&name("f"), Version([version; 32]), &mut out);
    spelled(&out)
}

/// Writes the file of `f`, which the spawner installs as this version.
fn write(lifecycle: &mut Lifecycle, version: u8) -> String {
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask(lifecycle), "f.sh");
    install(lifecycle, version)
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
fn homes_that_are_set_aside_are_known_without_a_walk() {
    let mut registry = Registry::new(str::to_owned);
    let put = |registry: &mut Registry, name: &str, warns: bool| {
        let candidate = candidate(name);
        let warning = Problem {
            file: "/state/home/a".to_owned(),
            message: format!("{SET_ASIDE}: it has another owner"),
            help: String::new(),
        };
        let installed = Installed {
            warnings: if warns { vec![warning] } else { Vec::new() },
            ..installed(&candidate.function)
        };
        let verdict = read_document(&installed.document).unwrap();
        registry.installed(candidate, (&installed, None), verdict, None);
        let found = registry.homes_set_aside().map(|(name, _)| name.to_string());
        found.collect::<Vec<_>>()
    };
    assert_eq!(put(&mut registry, "a", true), ["a"]);
    assert_eq!(put(&mut registry, "b", false), ["a"]);
    assert_eq!(put(&mut registry, "b", true), ["a", "b"]);
    assert_eq!(put(&mut registry, "a", false), ["b"]);
    registry.remove(&name("b"));
    assert_eq!(registry.homes_set_aside().count(), 0);
}

#[test]
fn equal_manifests_are_stored_once_and_shown_with_their_own_entry() {
    let mut registry = Registry::new(str::to_owned);
    for name in ["a", "b"] {
        let candidate = candidate(name);
        let installed = installed(&candidate.function);
        let mut verdict: Verdict = read_document(&installed.document).unwrap();
        verdict.manifest.as_mut().unwrap().entry.clone_from(&candidate.source);
        registry.installed(candidate, (&installed, None), verdict, None);
    }
    let serving = |name| {
        let function = registry.get(&FunctionName::new(name).unwrap());
        function.unwrap().newest.as_ref().unwrap()
    };
    assert_eq!(serving("a").whole_manifest().entry, "a.sh");
    assert_eq!(serving("b").whole_manifest().entry, "b.sh");
    let [a, b] = ["a", "b"].map(|name| Arc::clone(&serving(name).manifest));
    assert!(Arc::ptr_eq(&a, &b));
    assert!(Arc::ptr_eq(&registry.rules(&a, "node"), &registry.rules(&b, "node")));
}

#[test]
fn an_answer_counts_when_the_files_are_still_the_same() {
    let mut lifecycle = lifecycle();
    for same in [false, true] {
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(
            (ask(&mut lifecycle), ask(&mut lifecycle)),
            ("f.sh".into(), "nothing".into())
        );
        let mut out = Vec::new();
        let judged = InstallAnswer::Installed(Box::new(installed(&name("f"))), None);
        lifecycle.judged(1, judged, node(0), &mut out);
        assert_eq!(spelled(&out), "confirm 1 f.sh");
        out.clear();
        lifecycle.confirmed(1, same, node(0), &mut out);
        let expected = if same {
            "upload Installed, serve 1, store 1, prune"
        } else {
            "prune, rescan 1"
        };
        assert_eq!(spelled(&out), expected);
        assert!(
            lifecycle.installer.is_idle(),
            "a dropped answer is waited for no longer"
        );
    }
    let mut out = Vec::new();
    lifecycle.confirmed(1, true, node(0), &mut out);
    assert!(out.is_empty(), "once");
}

#[test]
fn a_scan_is_not_settled_without_files_that_the_spawner_could_not_be_asked_for() {
    let mut lifecycle = lifecycle();
    let scan = lifecycle.installer.new_scan();
    lifecycle.files_changed(vec![candidate("a"), candidate("b")]);
    lifecycle.installer.scanned(scan);
    // More often than there are files: each event asks again until fnd ends.
    for _ in 0..3 {
        let (_, files) = lifecycle.next_request(false).unwrap();
        assert_eq!(files, candidate("a"));
        lifecycle.installer.not_asked(files);
        assert!(!lifecycle.installer.is_settled(scan));
        assert!(lifecycle.installer.has_work(&name("a")) && lifecycle.installer.has_work(&name("b")));
    }
}

#[test]
fn a_version_that_checks_is_needed_until_the_answer_to_the_request_for_it() {
    let mut installer = Installer::default();
    for (kind, is_needed) in [
        (RequestKind::Check, true),
        (RequestKind::Install, false),
        (RequestKind::CleanBuild, false),
    ] {
        installer.asked(4, candidate("f"), kind);
        assert_eq!(installer.needs_no_check(), !is_needed, "{kind:?}");
        assert_eq!(installer.answered(4), Some((candidate("f"), kind)));
        assert!(installer.needs_no_check());
    }
}

/// Has the file of `f` installed, and changed before the answer counts. Returns the orders that follow.
fn change_while_it_is_installed(lifecycle: &mut Lifecycle) -> String {
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask(lifecycle), "f.sh");
    let mut out = Vec::new();
    let judged = InstallAnswer::Installed(Box::new(installed(&name("f"))), None);
    lifecycle.judged(1, judged, node(0), &mut out);
    out.clear();
    lifecycle.confirmed(1, false, node(0), &mut out);
    spelled(&out)
}

#[test]
fn a_scan_is_not_settled_without_files_that_change_while_they_are_installed_first() {
    let mut lifecycle = lifecycle();
    let scan = lifecycle.installer.new_scan();
    assert_eq!(
        change_while_it_is_installed(&mut lifecycle),
        "prune",
        "that scan looks again"
    );
    assert!(!lifecycle.installer.is_settled(scan));
    lifecycle.installer.scanned(scan);
    assert!(lifecycle.installer.is_settled(scan), "the file is not there any more");
    assert_eq!(change_while_it_is_installed(&mut lifecycle), "prune, rescan 2");
    assert!(!lifecycle.installer.is_settled(scan));
    lifecycle.files_changed(vec![candidate("f")]);
    lifecycle.installer.scanned(2);
    assert!(!lifecycle.installer.is_settled(scan));
    assert_eq!(ask(&mut lifecycle), "f.sh");
    install(&mut lifecycle, 1);
    assert!(lifecycle.installer.is_settled(scan));
    // A function that is known does not count as deleted.
    assert_eq!(change_while_it_is_installed(&mut lifecycle), "prune");
    assert!(lifecycle.installer.is_settled(scan));
}

#[test]
fn a_file_that_changes_without_end_does_not_keep_a_scan_from_being_settled() {
    let mut lifecycle = lifecycle();
    for number in 1..=5 {
        let orders = change_while_it_is_installed(&mut lifecycle);
        assert_eq!(orders, format!("prune, rescan {number}"));
        assert!(!lifecycle.installer.is_settled(0));
        lifecycle.installer.scanned(number);
    }
    assert!(!lifecycle.installer.take_given_up());
    assert_eq!(change_while_it_is_installed(&mut lifecycle), "prune");
    assert!(lifecycle.installer.is_settled(0));
    assert!(
        lifecycle.installer.take_given_up(),
        "the function is there, and is not known"
    );
    assert_eq!(change_while_it_is_installed(&mut lifecycle), "prune, rescan 6");
}

#[test]
fn a_script_that_runs_as_it_is_there_waits_until_the_directories_are_quiet() {
    let mut lifecycle = lifecycle();
    write(&mut lifecycle, 1);
    assert!(!lifecycle.has_settled());
    lifecycle.quiet();
    assert!(lifecycle.has_settled());
    assert!(!lifecycle.has_settled(), "once");
    let mut out = Vec::new();
    lifecycle.removed(&[name("f")], &mut out);
    assert_eq!(spelled(&out), "upload Removed, remove");
    assert!(lifecycle.registry.get(&name("f")).is_none() && lifecycle.releases.get(&name("f")).is_none());
}

#[test]
fn an_installation_that_failed_keeps_its_reason() {
    let mut lifecycle = lifecycle();
    lifecycle.files_changed(vec![candidate("f")]);
    ask(&mut lifecycle);
    let mut out = Vec::new();
    lifecycle.failed(1, "No space left on device", Duration::from_secs(100), &mut out);
    let error = "error: it could not be installed: No space left on device";
    assert_eq!(spelled(&out), format!("upload Refused, prune, refuse {error}"));
    let kept = lifecycle.registry.get(&name("f")).unwrap().findings.error.clone();
    assert_eq!(kept.as_deref(), Some(error));
}

#[test]
fn each_mistake_of_a_file_is_in_the_status_once() {
    let mut lifecycle = lifecycle();
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask(&mut lifecycle), "f.sh");
    let code = "# /// fnd\n# [queue]\n# group = \"db\"\n# per_key = 2\n# ///\necho\n";
    let refused = Refused {
        problems: Vec::new(),
        document: Some(document_of(&name("f"), code)),
        ..refused(&name("f"))
    };
    answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused)), 0);
    let function = lifecycle.registry.get(&name("f")).unwrap();
    let first = function.findings.error.clone().unwrap_or_default();
    assert!(first.contains(":3:") && first.contains("unknown group `db`"), "{first}");
    let others: Vec<_> = function.warnings().collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(
        others[0].starts_with("error: ") && others[0].contains(":4:") && others[0].contains("`queue.per_key` counts"),
        "{others:?}"
    );
}

#[test]
fn a_retry_that_is_refused_again_is_not_reported_again() {
    let mut lifecycle = lifecycle();
    lifecycle.files_changed(vec![candidate("f")]);
    for (seconds, report) in [(100, "report, serving false, "), (102, "")] {
        assert_eq!(ask(&mut lifecycle), "f.sh");
        let said = answer(
            &mut lifecycle,
            InstallAnswer::Refused(Box::new(refused(&name("f")))),
            seconds,
        );
        assert_eq!(
            said,
            format!("upload Refused, {report}prune, refuse error: /f/x.sh: no room")
        );
        let due = lifecycle.next_due().unwrap();
        assert!(lifecycle.install_due(due));
    }
}

/// Makes a change for a person, and returns the orders.
fn person(lifecycle: &mut Lifecycle, change: &ReleaseChange) -> String {
    let change = ReleaseRequest {
        change,
        running: Running::default(),
        now_ms: 5,
        is_spawner_of_0_1: false,
    };
    let mut out = Vec::new();
    lifecycle.change(&name("f"), change, 9, &mut out).unwrap();
    spelled(&out)
}

/// Returns a machine in which the versions 1 and 2 of `f` have served, one after the other.
fn two_versions() -> Lifecycle {
    let mut lifecycle = lifecycle();
    for version in [1, 2] {
        write(&mut lifecycle, version);
        serves(&mut lifecycle, version);
    }
    lifecycle
}

#[test]
fn a_version_that_could_not_be_loaded_is_named_while_it_is_to_serve() {
    let (mut lifecycle, f) = (two_versions(), name("f"));
    let not_loaded = |lifecycle: &Lifecycle| {
        let found = lifecycle.not_loaded(&f, &["/functions".to_owned()]);
        found.map(|(version, problem)| (version.0[0], problem.file.unwrap_or_default(), problem.message))
    };
    write(&mut lifecycle, 3);
    assert_eq!(not_loaded(&lifecycle), None, "it is on trial");
    lifecycle.trial_failed(&f, Version([3; 32]), "no such module", &mut Vec::new());
    let expected = (3, "/functions/f.sh".to_owned(), "no such module".to_owned());
    assert_eq!(not_loaded(&lifecycle), Some(expected));
    write(&mut lifecycle, 2);
    assert_eq!(not_loaded(&lifecycle), None, "the file is as before");
    write(&mut lifecycle, 3);
    serves(&mut lifecycle, 3);
    assert_eq!(not_loaded(&lifecycle), None, "it serves");
}

/// The answer that the dependencies of `f` are to be installed first.
fn needs_build() -> InstallAnswer {
    let build = Installed {
        function: name("fnd-build"),
        ..installed(&name("f"))
    };
    InstallAnswer::NeedsBuild(Box::new(NeedsBuild {
        function: name("f"),
        document: document(&name("f")),
        build,
    }))
}

#[test]
fn a_file_whose_build_could_not_be_started_is_tried_again() {
    let mut lifecycle = two_versions();
    lifecycle.files_changed(vec![candidate("f")]);
    let (first, number) = (name("fnd-build"), 1);
    let lane = Lane { first, number };
    for (seconds, next) in [(100, 102), (102, 106)] {
        assert_eq!(ask(&mut lifecycle), "f.sh");
        answer(&mut lifecycle, needs_build(), seconds);
        let (id, mut out) = (InvocationId(seconds.into()), Vec::new());
        lifecycle.sealed(&lane, Ok(()), node(seconds), &mut out);
        lifecycle.builds.started(&lane, id, true);
        // For example while fnd drains.
        let end = BuildEnd::not_started(id, "fnd takes no new work now");
        lifecycle.build_ended(end, node(seconds), &mut out);
        let next = Duration::from_secs(next);
        assert_eq!(lifecycle.next_due(), Some(next));
        assert!(lifecycle.install_due(next));
    }
}

#[test]
fn a_route_is_free_when_the_version_that_had_it_serves_no_more() {
    const AT_X: &str =
        "# /// fnd\n# [release]\n# check = false\n# [[http]]\n# path = \"/x\"\n# auth = \"none\"\n# ///\necho\n";
    let mut lifecycle = lifecycle();
    let mut number = 0;
    let mut put = |lifecycle: &mut Lifecycle, function: &str, code: &str| {
        number += 1;
        let version = Version([number; 32]);
        lifecycle.files_changed(vec![candidate(function)]);
        ask(lifecycle);
        let installed = Installed {
            version,
            load_key: version,
            document: document_of(&name(function), code),
            ..installed(&name(function))
        };
        answer(lifecycle, InstallAnswer::Installed(Box::new(installed), None), 0)
    };
    let quiet = "# /// fnd\n# [release]\n# check = false\n# ///\necho\n";
    put(&mut lifecycle, "f", AT_X);
    serves(&mut lifecycle, 1);
    put(&mut lifecycle, "f", quiet);
    assert!(
        put(&mut lifecycle, "g", AT_X).contains("`f` keeps it"),
        "the version before may still serve"
    );
    assert_eq!(ask(&mut lifecycle), "nothing");
    serves(&mut lifecycle, 2);
    assert_eq!(ask(&mut lifecycle), "g.sh");
}

/// Rules that follow from all manifests together are made anew only when one of the manifests has changed.
#[test]
fn an_edit_of_the_code_alone_changes_no_manifest() {
    const KEEPS: &str = "# /// fnd\n# [history]\n# keep = 5\n# ///\n";
    let mut registry = Registry::new(str::to_owned);
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
        registry.installed(candidate("f"), (&answer, None), verdict, Some(before));
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
#[test]
fn an_edit_of_a_function_without_routes_leaves_the_table_of_routes() {
    let mut functions = lifecycle();
    let mut number = 0;
    let mut edit = |functions: &mut Lifecycle, name: &str, code: &str| {
        number += 1;
        let candidate = candidate(name);
        let answer = Installed {
            version: Version([number; 32]),
            ..installed(&candidate.function)
        };
        let verdict: Verdict = read_document(&document_of(&candidate.function, code)).unwrap();
        let manifest = verdict.manifest.clone();
        functions
            .registry
            .installed(candidate.clone(), (&answer, None), verdict, None);
        functions
            .routes
            .set(&candidate.function, Author::Root, manifest.as_ref());
    };
    let paths = |functions: &mut Lifecycle| functions.route_table();
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
