use super::*;
use crate::functions::catalog::{CatalogPaths, WalkRules};
use fnd_core::access::Author;
use fnd_core::lifecycle::versions::Versions;
use fnd_core::lifecycle::{InstallAnswer, Lifecycle, NodeFacts, SourceFiles};
use fnd_core::run::Now;
use fnd_wire::frame::{Problem, Refused};
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;

fn functions() -> (Functions, Lifecycle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let places = CatalogPaths {
        directories: vec![dir.path().to_owned()],
        held: dir.path().join("held"),
        remembered: Vec::new(),
        marks: dir.path().to_owned(),
    };
    let catalog = Catalog::start(places, WalkRules::default(), |_| {}).unwrap();
    let lifecycle = Lifecycle::new(Vec::new(), Versions::default(), str::to_owned);
    (Functions::new(catalog, BTreeMap::new()), lifecycle, dir)
}

fn name() -> FunctionName {
    FunctionName::new("x").unwrap()
}

/// Reports the file of the function, and asks the spawner for its installation as request 1.
fn ask(lifecycle: &mut Lifecycle) {
    lifecycle.files_changed(vec![SourceFiles {
        function: name(),
        directory: 0,
        source: "x.sh".to_owned(),
        sidecar: None,
        directory_form: false,
    }]);
    let (request, files) = lifecycle.next_request(false).expect("it waits");
    lifecycle.asked(1, &request, files);
}

/// Lets the spawner refuse the file.
fn refuse(lifecycle: &mut Lifecycle) {
    let node = NodeFacts {
        host: "node",
        now: Now {
            mono: Duration::ZERO,
            unix_ms: 0,
        },
        dirs: &[],
        is_spawner_of_0_1: false,
        lanes: 1,
        internal_memory: &|| 0,
        is_live: &|_| false,
        is_cancelled: &|_| false,
        author: &|_, _| Author::Root,
    };
    let problem = Problem {
        file: "/f/x.sh".to_owned(),
        message: "no room".to_owned(),
        help: String::new(),
    };
    let refused = Refused {
        function: name(),
        problems: vec![problem],
        document: None,
    };
    lifecycle.judged(1, InstallAnswer::Refused(Box::new(refused)), node, &mut Vec::new());
    lifecycle.confirmed(1, true, node, &mut Vec::new());
}

#[tokio::test]
async fn whoever_waits_for_a_scan_waits_for_what_it_saw() {
    let (mut functions, mut lifecycle, _dir) = functions();
    let (sender, mut settled) = oneshot::channel();
    let scan = lifecycle.installer.new_scan();
    functions.settling.push((scan, sender));
    functions.reloading = true;
    ask(&mut lifecycle);
    lifecycle.installer.scanned(scan);
    assert!(
        !functions.wake_settled(&lifecycle.installer, false),
        "one is to be installed"
    );
    refuse(&mut lifecycle);
    assert!(
        !functions.wake_settled(&lifecycle.installer, true),
        "the configuration is not read"
    );
    assert!(settled.try_recv().is_err());
    assert!(functions.wake_settled(&lifecycle.installer, false));
    assert_eq!(settled.try_recv(), Ok(()));
    assert!(!functions.wake_settled(&lifecycle.installer, false), "once");
}

#[tokio::test]
async fn a_function_whose_file_changes_too_often_counts_as_deleted_only_after_another_scan() {
    let (mut functions, mut lifecycle, _dir) = functions();
    let installer = &mut lifecycle.installer;
    let scan = installer.new_scan();
    installer.scanned(scan);
    while let Some(number) = installer.repeat_scan() {
        installer.scanned(number);
    }
    assert!(installer.is_settled(scan), "the start goes on");
    assert!(!functions.are_known(installer));
    assert!(!functions.has_decided(installer), "the other scan is not over");
    installer.scanned(scan + 6);
    assert!(functions.has_decided(installer));
}

#[tokio::test]
async fn a_problem_is_in_the_report_of_one_reload() {
    let (mut functions, mut lifecycle, _dir) = functions();
    let before = functions.before_reload(&lifecycle);
    ask(&mut lifecycle);
    refuse(&mut lifecycle);
    let none = BTreeSet::new;
    let report = functions.report(&lifecycle, &[], (&before, none()));
    assert_eq!(
        (report.diagnostics.len(), report.still_invalid.len()),
        (1, 0),
        "{report:?}"
    );
    let report = functions.report(&lifecycle, &[], (&before, none()));
    assert_eq!((report.diagnostics.len(), report.still_invalid), (0, vec![name()]));
    let before = functions.before_reload(&lifecycle);
    lifecycle.removed(&[name()], &mut Vec::new());
    assert_eq!(functions.report(&lifecycle, &[], (&before, none())).removed, [name()]);
}

#[tokio::test]
async fn a_version_counts_as_applied_when_it_serves() {
    let (mut functions, mut lifecycle, _dir) = functions();
    ask(&mut lifecycle);
    refuse(&mut lifecycle);
    functions.report_problems(&lifecycle, &[]);
    let before = functions.before_reload(&lifecycle);
    let report = functions.report(&lifecycle, &[], (&before, BTreeSet::from([name()])));
    assert_eq!((report.applied, report.trying), (vec![], vec![name()]));
    lifecycle.serves(&name(), Version([1; 32]), &mut Vec::new());
    let report = functions.report(&lifecycle, &[], (&before, BTreeSet::new()));
    assert_eq!((report.applied, report.trying), (vec![name()], vec![]));
}

#[tokio::test]
async fn each_of_two_reloads_at_once_reports_what_is_wrong() {
    let (mut functions, mut lifecycle, _dir) = functions();
    functions.report_problems(&lifecycle, &[]);
    let both = [(), ()].map(|()| functions.before_reload(&lifecycle));
    ask(&mut lifecycle);
    refuse(&mut lifecycle);
    for before in &both {
        let report = functions.report(&lifecycle, &[], (before, BTreeSet::new()));
        assert_eq!((report.diagnostics.len(), report.still_invalid), (1, vec![]));
    }
    let before = functions.before_reload(&lifecycle);
    let report = functions.report(&lifecycle, &[], (&before, BTreeSet::new()));
    assert_eq!((report.diagnostics.len(), report.still_invalid), (0, vec![name()]));
}
