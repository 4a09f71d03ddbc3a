//! Builds from scratch that a person asks for, while the files are installed for other reasons.

use super::*;
use fnd_manifest::judge::SourceOrigin;
use fnd_wire::frame::Request;

// Trees of dependencies: the one that is built anew, the one from before, and one of another list.
const ANEW: u8 = 1;
const BEFORE: u8 = 8;
const OTHER: u8 = 9;

/// Asks for the next installation. Returns the function, with an exclamation mark if its dependencies are built anew.
fn ask_next(lifecycle: &mut Lifecycle) -> String {
    let Some((request, files)) = lifecycle.next_request(false) else {
        return "nothing".to_owned();
    };
    let is_anew = matches!(request, Request::Rebuild(_));
    let asked = format!("{}{}", files.function, if is_anew { "!" } else { "" });
    lifecycle.asked(1, &request, files);
    asked
}

/// Lets the spawner install this version of a function, with this tree. Its syntax is not checked.
fn install_with(lifecycle: &mut Lifecycle, function: &str, version: u8, tree: Option<u8>) -> String {
    let version = Version([version; 32]);
    let installed = Installed {
        version,
        load_key: version,
        document: document_of(
            &name(function),
            "# /// fnd\n# [release]\n# check = false\n# ///\necho\n",
        ),
        ..installed(&name(function))
    };
    let tree = tree.map(|tree| Version([tree; 32]));
    answer(lifecycle, InstallAnswer::Installed(Box::new(installed), tree), 0)
}

/// Returns a machine in which `f` serves with the tree [`BEFORE`], while the spawner is asked for its build from scratch, for
/// which the caller 7 waits.
fn asked_anew() -> Lifecycle {
    let mut lifecycle = lifecycle();
    lifecycle.files_changed(vec![candidate("f")]);
    ask_next(&mut lifecycle);
    install_with(&mut lifecycle, "f", 1, Some(BEFORE));
    serves(&mut lifecycle, 1);
    assert!(lifecycle.build_again(&name("f"), true, 7, |_| false));
    assert_eq!(ask_next(&mut lifecycle), "f!");
    lifecycle
}

/// Returns the same machine, while the build is under way.
fn built_anew() -> Lifecycle {
    let mut lifecycle = asked_anew();
    answer(&mut lifecycle, needs_build(), 0);
    lifecycle
}

/// Has the build begin that is ordered: that of the tree [`ANEW`], or the fetching of the code. Returns its lane.
fn begin_build(lifecycle: &mut Lifecycle) -> Lane {
    let (first, number) = (name("fnd-build"), 1);
    let lane = Lane { first, number };
    lifecycle.sealed(&lane, Ok(()), node(0), &mut Vec::new());
    lifecycle.builds.started(&lane, InvocationId(5), true);
    lane
}

/// Has the build end, and the tree made. Returns whether installations are asked for after that.
fn end_build(lifecycle: &mut Lifecycle, lane: &Lane) -> bool {
    let (id, outcome, last, mut out) = (InvocationId(5), Ok(()), String::new(), Vec::new());
    lifecycle.build_ended(BuildEnd { id, outcome, last }, node(0), &mut out);
    lifecycle.sealed(lane, Ok(()), node(0), &mut out);
    out.iter().any(|order| matches!(order, Order::Settle))
}

/// Has a build begin and end, and its tree made.
fn build(lifecycle: &mut Lifecycle) {
    let lane = begin_build(lifecycle);
    end_build(lifecycle, &lane);
}

#[test]
fn a_function_that_is_installed_during_its_build_from_scratch_gets_the_new_tree_at_the_end() {
    for edited in [1, 2] {
        let mut lifecycle = built_anew();
        // A reload, or an edit of the code alone: the tree from before is there.
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(ask_next(&mut lifecycle), "f");
        let said = install_with(&mut lifecycle, "f", edited, Some(BEFORE));
        assert!(said.starts_with(&format!("upload Installed, serve {edited}")), "{said}");
        serves(&mut lifecycle, edited);
        build(&mut lifecycle);
        assert_eq!(ask_next(&mut lifecycle), "f");
        let said = install_with(&mut lifecycle, "f", 3, Some(ANEW));
        assert!(said.starts_with("answer 7 Ok(3), upload Installed, serve 3"), "{said}");
        assert_eq!(ask_next(&mut lifecycle), "nothing");
    }
}

#[test]
fn functions_with_the_same_list_get_the_tree_that_was_built_anew_for_one_of_them() {
    // In the second case a person went back to a release of `f` without dependencies, and its file has the list: all functions
    // with trees are installed again, except one that waits for a build.
    for (serving, expected) in [
        (Some(BEFORE), vec!["e", "f", "nothing"]),
        (None, vec!["e", "f", "g", "nothing"]),
    ] {
        let mut lifecycle = lifecycle();
        for (function, tree) in [("e", Some(BEFORE)), ("g", Some(OTHER)), ("h", None), ("f", serving)] {
            lifecycle.files_changed(vec![candidate(function)]);
            ask_next(&mut lifecycle);
            install_with(&mut lifecycle, function, 1, tree);
        }
        assert!(lifecycle.build_again(&name("f"), true, 7, |_| false));
        assert_eq!(ask_next(&mut lifecycle), "f!");
        answer(&mut lifecycle, needs_build(), 0);
        build(&mut lifecycle);
        let mut asked: Vec<_> = expected.iter().map(|_| ask_next(&mut lifecycle)).collect();
        asked.sort();
        assert_eq!(asked, expected);
    }
}

#[test]
fn functions_with_the_same_list_get_the_new_tree_whatever_becomes_of_the_one_that_waits_for_it() {
    for is_mistake in [true, false] {
        let mut lifecycle = built_anew();
        lifecycle.files_changed(vec![candidate("g")]);
        ask_next(&mut lifecycle);
        install_with(&mut lifecycle, "g", 1, Some(BEFORE));
        let lane = begin_build(&mut lifecycle);
        lifecycle.files_changed(vec![candidate("f")]);
        assert_eq!(ask_next(&mut lifecycle), "f");
        if is_mistake {
            // The build goes on, and nobody waits for it.
            answer(&mut lifecycle, InstallAnswer::Refused(Box::new(refused(&name("f")))), 0);
        } else {
            // The tree is there a moment before fnd learns that.
            install_with(&mut lifecycle, "f", 2, Some(ANEW));
        }
        assert!(end_build(&mut lifecycle, &lane), "installations are asked for");
        let mut asked = [(); 3].map(|()| ask_next(&mut lifecycle));
        asked.sort();
        assert_eq!(asked, ["f", "g", "nothing"]);
    }
}

#[test]
fn a_build_from_scratch_is_asked_for_again_once_its_code_is_fetched() {
    let mut lifecycle = asked_anew();
    let mut verdict: Verdict = read_document(&document(&name("f"))).unwrap();
    let (from, every_s) = ("https://git.example.com/f.git".to_owned(), None);
    (verdict.manifest, verdict.source) = (None, Some(SourceOrigin { from, every_s }));
    let needs_code = NeedsBuild {
        function: name("f"),
        document: Bytes(serde_json::to_vec(&verdict).unwrap()),
        build: Installed {
            function: name("fnd-build"),
            ..installed(&name("f"))
        },
    };
    answer(&mut lifecycle, InstallAnswer::NeedsBuild(Box::new(needs_code)), 0);
    build(&mut lifecycle);
    assert_eq!(ask_next(&mut lifecycle), "f!");
    answer(&mut lifecycle, needs_build(), 0);
    build(&mut lifecycle);
    assert_eq!(ask_next(&mut lifecycle), "f", "it is built once");
    let said = install_with(&mut lifecycle, "f", 3, Some(ANEW));
    assert!(said.starts_with("answer 7 Ok(3)"), "{said}");
}

#[test]
fn a_build_from_scratch_is_that_of_the_list_that_is_installed_meanwhile() {
    let mut lifecycle = built_anew();
    lifecycle.files_changed(vec![candidate("f")]);
    ask_next(&mut lifecycle);
    let said = install_with(&mut lifecycle, "f", 2, Some(OTHER));
    assert!(said.starts_with("upload Installed, serve 2"), "{said}");
    assert_eq!(ask_next(&mut lifecycle), "f!");
    // Without dependencies there is nothing to build.
    let mut lifecycle = built_anew();
    lifecycle.files_changed(vec![candidate("f")]);
    ask_next(&mut lifecycle);
    let said = install_with(&mut lifecycle, "f", 2, None);
    assert!(said.starts_with("answer 7 Ok(2)"), "{said}");
    assert_eq!(ask_next(&mut lifecycle), "nothing");
}

#[test]
fn a_build_from_scratch_is_asked_for_again_if_its_answer_was_dropped() {
    let mut lifecycle = lifecycle();
    lifecycle.files_changed(vec![candidate("f")]);
    ask_next(&mut lifecycle);
    install_with(&mut lifecycle, "f", 1, Some(BEFORE));
    assert!(lifecycle.build_again(&name("f"), true, 7, |_| false));
    assert_eq!(ask_next(&mut lifecycle), "f!");
    let mut out = Vec::new();
    lifecycle.judged(1, needs_build(), node(0), &mut out);
    // Somebody is writing the file. The catalog reports it once it is complete.
    lifecycle.confirmed(1, false, node(0), &mut out);
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask_next(&mut lifecycle), "f!");
    answer(&mut lifecycle, needs_build(), 0);
    lifecycle.files_changed(vec![candidate("f")]);
    assert_eq!(ask_next(&mut lifecycle), "f", "it is built once");
}

#[test]
fn a_check_of_an_edit_does_not_end_the_build_from_scratch() {
    let mut lifecycle = built_anew();
    lifecycle.files_changed(vec![candidate("f")]);
    ask_next(&mut lifecycle);
    let edited = Installed {
        version: Version([2; 32]),
        load_key: Version([3; 32]),
        ..installed(&name("f"))
    };
    let tree = Some(Version([BEFORE; 32]));
    answer(&mut lifecycle, InstallAnswer::Installed(Box::new(edited), tree), 0);
    let (request, files) = lifecycle.next_request(false).unwrap();
    assert!(matches!(request, Request::Check(_)));
    lifecycle.asked(1, &request, files);
    let check = Installed {
        function: checker(),
        ..installed(&name("f"))
    };
    let (function, document) = (name("f"), document(&name("f")));
    let needs = NeedsBuild {
        function,
        document,
        build: check,
    };
    answer(&mut lifecycle, InstallAnswer::NeedsBuild(Box::new(needs)), 0);
    assert!(lifecycle.builds.clean_tree(&name("f")).is_some());
}
