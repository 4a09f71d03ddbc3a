//! An fnd that was taken over gets no tree of dependencies made of anything but the build of this tree, and builds share what
//! they keep within one trust only.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::Harness;
use fnd_wire::frame::{Install, Installed, NOT_ALONE, Reply, Request, STORED, SealTree, Spawn};
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;

/// A build that leaves a complete tree of its own, and counts in its cache how often it ran there.
const GOOD: &str = "build=echo >>$CACHE_DIRECTORY/runs; wc -l <$CACHE_DIRECTORY/runs; t=$STATE_DIRECTORY/$(basename $(dirname $CODE)); mkdir -p $t && echo good >$t/pkg && touch $t/.fnd-packages";

/// A build that leaves a complete tree in the name of another one.
fn poison(tree: &Version) -> String {
    let tree = tree.hex();
    format!("build=t=$STATE_DIRECTORY/{tree}; mkdir -p $t; echo evil >$t/pkg; touch $t/.fnd-packages")
}

fn of_files(name: &str) -> Install {
    let (source, sidecar) = (format!("{name}.sh"), Some(format!("{name}.toml")));
    Install { directory: 0, function: FunctionName::new(name).unwrap(), source, sidecar, directory_form: false }
}

/// Writes a function whose code and manifest have these owners, and returns the version that builds its tree.
fn needs_build(harness: &mut Harness, name: &str, owners: [u32; 2], manifest: &str) -> Installed {
    let install = of_files(name);
    let sidecar = install.sidecar.clone().unwrap();
    for (file, text, owner) in [(&install.source, "echo", owners[0]), (&sidecar, manifest, owners[1])] {
        let path = harness.write(file, text);
        if common::is_root() {
            chown(path, Some(owner), None).unwrap();
        }
    }
    let number = harness.send(&Request::Install(install), Vec::new());
    match harness.answer(number).0 {
        Reply::NeedsBuild(needs) => needs.build,
        other => panic!("{other:?}"),
    }
}

fn seal(harness: &mut Harness, builder: &FunctionName, tree: Option<Version>) -> Result<(), String> {
    let function = builder.clone();
    let number = harness.send(&Request::Seal(SealTree { function, tree }), Vec::new());
    match harness.answer(number).0 {
        Reply::Sealed(why) => why.map_or(Ok(()), Err),
        other => panic!("{other:?}"),
    }
}

fn content(harness: &Harness, tree: &Version) -> Option<String> {
    fs::read_to_string(harness.path(&format!("state/deps/{}/pkg", tree.hex()))).ok()
}

#[test]
fn a_tree_is_made_only_of_its_own_build_that_ran_alone() {
    let mut harness = Harness::start();
    let good = needs_build(&mut harness, "good", [0, 0], GOOD);
    let evil = needs_build(&mut harness, "evil", [0, 0], &poison(&good.version));
    let (builder, tree) = (good.function.clone(), good.version);
    // As fnd should: nothing but this build. Whatever else runs in between, the tree is not made.
    let runs: [&[&Installed]; 4] = [&[&evil], &[&evil, &good], &[&good, &evil], &[]];
    for before in runs {
        seal(&mut harness, &builder, None).unwrap();
        for build in before {
            harness.run(build, None, &[]);
        }
        let why = seal(&mut harness, &builder, Some(tree)).unwrap_err();
        assert_eq!(why, NOT_ALONE);
        assert_eq!(content(&harness, &tree), None);
    }
    // The files of an invocation of another build.
    seal(&mut harness, &builder, None).unwrap();
    let shared = InvocationId(77);
    for build in [&evil, &good] {
        let (worker, number) = harness.order_in(build, shared, (None, None), &[]);
        harness.finish(worker, number);
        if build.version == evil.version {
            seal(&mut harness, &builder, None).unwrap();
        }
    }
    seal(&mut harness, &builder, Some(tree)).unwrap_err();

    seal(&mut harness, &builder, None).unwrap();
    harness.run(&good, None, &[]);
    seal(&mut harness, &builder, Some(tree)).unwrap();
    assert_eq!(content(&harness, &tree).unwrap(), "good\n");
    seal(&mut harness, &builder, Some(tree)).unwrap_err();
    assert_eq!(content(&harness, &tree).unwrap(), "good\n");
}

#[test]
fn builds_of_different_trusts_share_no_user_no_cache_and_no_tree() {
    if !common::root() {
        return;
    }
    let mut harness = Harness::start();
    let owners = [("r", [0, 0]), ("a", [4321, 0]), ("b", [4322, 0]), ("m", [0, 4321]), ("n", [0, 4321])];
    let builds = owners.map(|(name, owners)| needs_build(&mut harness, name, owners, GOOD));
    let names: Vec<_> = builds.iter().map(|build| build.function.to_string()).collect();
    assert_eq!(names[..3], ["fnd-build", "fnd-build-u4321", "fnd-build-u4322"]);
    let all = |of: fn(&Installed) -> String| builds.iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(all(|build| build.function.to_string()), 5, "{names:?}");
    assert_eq!(all(|build| build.uid.to_string()), 5);
    assert_eq!(all(|build| build.version.hex()), 5);
    for build in &builds {
        seal(&mut harness, &build.function, None).unwrap();
        assert_eq!(harness.run(build, None, &[]).stdout.trim(), "1", "nobody else wrote to the cache");
        seal(&mut harness, &build.function, Some(build.version)).unwrap();
    }
    // The same trust: the same user and cache, and the same tree for the same list.
    assert_eq!(needs_build(&mut harness, "b", [4322, 0], "build=true").function, builds[2].function);
    assert_eq!(needs_build(&mut harness, "a2", [4321, 0], "build=false").uid, builds[1].uid);

    // A build of one trust runs as no other one.
    let [root, other, ..] = &builds;
    let spawn = Spawn {
        worker: WorkerId(harness.next_worker()),
        function: root.id,
        version: other.version,
        invocation: InvocationId(1),
        environment: Vec::new(),
        input: false,
        previous: false,
        lasts_ms: 0,
        record: fnd_wire::form::Bytes::default(),
    };
    let number = harness.send(&Request::Spawn(spawn), Vec::new());
    let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!() };
    assert!(failed.message.contains("was not installed"), "{}", failed.message);
    let lent = |function: &str, build: &Installed| Install {
        directory: STORED,
        function: FunctionName::new(function).unwrap(),
        source: build.version.hex(),
        sidecar: None,
        directory_form: false,
    };
    assert!(matches!(harness.ask_to_install(lent("fnd-build-2", other)), common::Outcome::Refused(..)));
    assert!(matches!(harness.ask_to_install(lent("fnd-build-u4322", other)), common::Outcome::Refused(..)));
    // The code that a check reads does not run in its place.
    let number = harness.send(&Request::Check(of_files("a")), Vec::new());
    let Reply::NeedsBuild(check) = harness.answer(number).0 else { panic!() };
    assert_eq!(check.build.function.as_str(), "fnd-check");
    assert!(matches!(harness.ask_to_install(lent("fnd-check", &check.build)), common::Outcome::Refused(..)));
    let common::Outcome::Installed(second) = harness.ask_to_install(lent("fnd-build-u4321-2", other)) else { panic!() };
    assert!(second.uid != other.uid && second.version == other.version);
}
