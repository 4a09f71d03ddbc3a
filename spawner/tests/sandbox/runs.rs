//! `TMPDIR`: bounded as `/tmp` is, and there until its invocation is over.

use super::{PROFILES, can, expect, with};
use crate::common::{Harness, Options, privileged};
use fnd_spawner::clock::now;
use fnd_wire::frame::{Installed, Reply, Request};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::fs;
use std::time::Duration;

/// Shows what the attempt before has left, leaves something, and writes more than it may.
const FILL: &str = r#"echo "before $(cat "$TMPDIR/kept" 2>/dev/null)"
echo yes >"$TMPDIR/kept"
head -c 100000000 /dev/zero >"$TMPDIR/large" 2>/dev/null && echo unbounded
echo "large $(($(stat -c %s "$TMPDIR/large") <= BOUND))"
rm "$TMPDIR/large"
touch "$TMPDIR"/{1..5}
echo "files $(ls -A "$TMPDIR" | wc -l)"
rm "$TMPDIR"/{1..5}
"#;
/// `limits.tmp`, and the fake judge's `limits.result`.
const TMP: u64 = 1 << 20;
const RESULT: u64 = 6 << 20;

fn harness() -> Harness {
    with(&Options { private_mounts: true, ..Options::default() })
}

fn fill(harness: &mut Harness, installed: &Installed, invocation: u128) -> String {
    let (worker, number) = harness.order_in(installed, InvocationId(invocation), (None, None), &[]);
    let run = harness.finish(worker, number);
    run.stdout + &run.stderr
}

/// Returns how many file systems of runs the spawner has mounted.
fn mounted(harness: &Harness) -> usize {
    let all = fs::read_to_string(format!("/proc/{}/mountinfo", harness.child.id())).unwrap();
    let below = format!("{}/", harness.path("state/tmp").display());
    all.lines().filter(|line| line.split(' ').nth(4).is_some_and(|place| place.starts_with(&below))).count()
}

fn wait_mounted(harness: &mut Harness, count: usize) {
    let start = now();
    while mounted(harness) != count {
        assert!(now().saturating_sub(start) < Duration::from_secs(60), "{} are mounted, not {count}", mounted(harness));
        harness.is_served();
    }
}

#[test]
fn runs_hold_a_bounded_amount_until_they_are_over() {
    if !privileged() {
        return;
    }
    let mut harness = harness();
    if !can(&harness, "mounts") {
        return;
    }
    for profile in PROFILES {
        let lines = format!("profile={profile}\ntmp={TMP}\nmemory=268435456");
        let script = FILL.replace("BOUND", &(TMP + 2 * RESULT).to_string());
        let installed = harness.install(&format!("{profile}.sh"), &script, &lines);
        let bounded = [("large", "1"), ("files", "6")];
        let first = fill(&mut harness, &installed, 7);
        expect(&first, profile, &bounded);
        expect(&first, profile, &[("before", "")]);
        assert!(!first.contains("unbounded"), "{profile}: {first}");
        // The next attempt, also of another version; not another invocation.
        expect(&fill(&mut harness, &installed, 7), profile, &[("before", "yes")]);
        let newer = harness.install(&format!("{profile}.sh"), &format!("{script}# newer\n"), &lines);
        expect(&fill(&mut harness, &newer, 7), profile, &[("before", "yes")]);
        expect(&fill(&mut harness, &newer, 8), profile, &[("before", "")]);
        // Nothing of it is on the disk.
        assert_eq!(fs::read_dir(harness.path("state/tmp").join(profile)).unwrap().count(), 0);
        assert_eq!(mounted(&harness), 1);
        // The file system stays as long as an invocation has something in it, and no longer.
        assert_eq!(harness.release(&newer, InvocationId(8)), Reply::Done);
        let number = harness.send(&Request::Remove(FunctionName::new(profile).unwrap()), Vec::new());
        assert_eq!(harness.answer(number).0, Reply::Done);
        let again = harness.install(&format!("{profile}.sh"), &script, &lines);
        expect(&fill(&mut harness, &again, 7), profile, &[("before", "yes")]);
        assert_eq!(harness.release(&again, InvocationId(7)), Reply::Done);
        let number = harness.send(&Request::Remove(FunctionName::new(profile).unwrap()), Vec::new());
        assert_eq!(harness.answer(number).0, Reply::Done);
        wait_mounted(&mut harness, 0);
    }
}

/// A function's launcher does not carry the file systems of other functions.
#[test]
fn nothing_is_mounted_for_strangers() {
    if !privileged() {
        return;
    }
    let mut harness = harness();
    if !can(&harness, "mounts") {
        return;
    }
    let look = "cat /proc/self/mountinfo\n";
    for name in ["a", "b", "c"] {
        let installed = harness.install(&format!("{name}.sh"), look, "profile=standard");
        let seen = fill(&mut harness, &installed, 1);
        let places: Vec<_> = seen.lines().filter(|line| line.contains("/state/tmp/")).collect();
        assert!(places.len() == 1 && places[0].contains(&format!("/state/tmp/{name} ")), "{name}: {seen}");
    }
    assert_eq!(mounted(&harness), 3);
    let machine = fs::read_to_string("/proc/1/mountinfo").unwrap();
    assert!(!machine.contains("/state/tmp"), "{machine}");
}

/// Invocations of an earlier spawner lie on the disk, and stay there.
#[test]
fn what_an_earlier_spawner_left_is_found() {
    if !privileged() {
        return;
    }
    let prepare: fn(&std::path::Path, u32) = |dir, _| {
        let left = dir.join("state/tmp/kept").join(InvocationId(7).to_string()).join("tmp");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("kept"), "yes").unwrap();
    };
    let mut harness = with(&Options { private_mounts: true, prepare: Some(prepare), ..Options::default() });
    let script = "cat \"$TMPDIR/kept\"\n";
    let installed = harness.install("kept.sh", script, "profile=strict");
    let run = fill(&mut harness, &installed, 7);
    assert!(run.contains("yes"), "{run}");
    assert_eq!(mounted(&harness), 0);
}
