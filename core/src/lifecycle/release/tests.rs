//! The machine of releases in a small world: files are judged, and the supervisor tries every new version.
//!
//! Files:
//! - `canaries`: releases that get a share of the calls
//! - `holds`: rollbacks and pins

mod canaries;
mod holds;

use super::*;
use proptest::prelude::*;

/// A version of content `content` with interpreter `interpreter`.
fn version(content: u8, interpreter: u8) -> Version {
    let mut bytes = [0; 32];
    (bytes[0], bytes[1]) = (content, interpreter);
    Version(bytes)
}

fn key(content: u8) -> Version {
    Version([content; 32])
}

/// Contents from here on cannot be loaded, and are refused from the next number on.
const BROKEN: u8 = 4;
const INVALID: u8 = 5;

const RULES: CanaryRules = CanaryRules {
    percent: 10,
    promote_after_ms: Some(1000),
    max_failures: 1,
};

#[derive(Debug, Clone, Copy)]
enum Step {
    Edit(u8),
    /// The file is judged again: by a reload.
    Reload,
    /// Another interpreter makes new versions.
    Interpreter,
    Rollback(Option<u8>),
    Pin(Option<u8>),
    Unpin,
    /// Whether the manifest says `canary`, from the next edit on.
    Share(bool),
    /// A person gives the waiting release a share of the calls.
    Canary,
    Promote,
    StopCanary,
    /// An attempt of the canary fails.
    CanaryFails,
    Restart,
    /// The next step's trial does not end before a restart.
    CutShort,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..=INVALID).prop_map(Step::Edit),
        1 => Just(Step::Reload),
        1 => Just(Step::Interpreter),
        3 => proptest::option::of(0..INVALID).prop_map(Step::Rollback),
        2 => proptest::option::of(0..INVALID).prop_map(Step::Pin),
        2 => Just(Step::Unpin),
        2 => any::<bool>().prop_map(Step::Share),
        2 => Just(Step::Canary),
        2 => Just(Step::Promote),
        1 => Just(Step::StopCanary),
        2 => Just(Step::CanaryFails),
        2 => Just(Step::Restart),
        1 => Just(Step::CutShort),
    ];
    proptest::collection::vec(step, 1..40)
}

/// fnd around the machine: it does what the machine says, and the supervisor tries every new version.
struct World {
    releases: Releases,
    stored: String,
    file: u8,
    interpreter: u8,
    serves: Option<Version>,
    /// The release that gets a share of the calls.
    canary: Option<Version>,
    /// Whether the manifest says `canary`.
    share: bool,
    cut_short: bool,
    /// Whether a version that can be loaded has served.
    ever_good: bool,
    now: u64,
}

impl World {
    fn new() -> Self {
        let releases = Releases::default();
        Self {
            stored: serde_json::to_string(&releases).unwrap(),
            releases,
            file: 0,
            interpreter: 0,
            serves: None,
            canary: None,
            share: false,
            cut_short: false,
            ever_good: false,
            now: 0,
        }
    }

    fn store(&mut self) {
        self.stored = serde_json::to_string(&self.releases).unwrap();
    }

    fn judge(&mut self) {
        if self.file == INVALID {
            if let Some(copy) = self.releases.file_refused() {
                self.copy(copy);
            }
            return self.store();
        }
        let file = version(self.file, self.interpreter);
        self.now += 1;
        let tried = Tried {
            before: true,
            canary: self.share.then_some(RULES),
        };
        let known = self.releases.canary().is_some();
        let next = self
            .releases
            .file_installed(self.now, (file, key(self.file)), ("f.py", tried));
        self.store();
        self.compare();
        match next {
            AfterInstall::Serve => self.offer(file),
            AfterInstall::Waits(copy) => self.copy(copy),
            AfterInstall::Canary => {
                self.offer_canary(file);
                if let Some(serving) = self.serves.filter(|_| known) {
                    self.copy(serving);
                }
            }
        }
    }

    fn copy(&mut self, asked: Version) {
        let new = version(asked.0[0], self.interpreter);
        let copied = self.releases.copy_installed(asked, new);
        self.store();
        match copied {
            Copied::Serves => self.offer(new),
            Copied::Canary => self.offer_canary(new),
            Copied::Unwanted => {}
        }
        if self.releases.copy_done(asked) {
            self.judge();
        }
    }

    /// Gives the supervisor a version that is to get a share of the calls.
    fn offer_canary(&mut self, new: Version) {
        if self.canary == Some(new) || self.cut_short {
            return;
        }
        self.canary = None;
        if new.0[0] < BROKEN {
            self.canary = Some(new);
            self.releases.canary_begins(new, self.now);
        } else {
            self.releases.failed(new, "no such module");
        }
        self.store();
    }

    /// Takes a canary from the supervisor that the machine no longer has.
    fn compare(&mut self) {
        let canary = self.releases.canary().map(|canary| canary.version);
        self.canary = self.canary.filter(|has| canary == Some(*has));
    }

    /// Gives a version to the supervisor.
    fn offer(&mut self, new: Version) {
        self.serve(new);
        self.compare();
        // A promoted one was just given to the supervisor.
        let wanted = self.releases.wanted_canary().filter(|wanted| *wanted != new);
        if let Some(wanted) = wanted.filter(|wanted| self.canary != Some(*wanted) && wanted.0[0] < BROKEN) {
            self.copy(wanted);
        }
    }

    fn serve(&mut self, new: Version) {
        if self.serves == Some(new) {
            return;
        }
        if self.canary.take_if(|canary| *canary == new).is_some()
            || self.serves.is_none()
            || new.0[0] < BROKEN && !self.cut_short
        {
            self.serves = Some(new);
            self.ever_good |= new.0[0] < BROKEN;
            self.releases.serves(new);
            return self.store();
        }
        if self.cut_short {
            return;
        }
        let copy = self.releases.failed(new, "no such module");
        self.store();
        if let Some(copy) = copy {
            self.copy(copy);
        }
    }

    fn hold(&mut self, kind: HoldKind, content: Option<u8>) {
        let chosen = match content {
            Some(content) => self
                .releases
                .list()
                .iter()
                .rev()
                .find(|release| release.version.0[0] == content),
            None if kind == HoldKind::Pin => self.releases.current().ok(),
            None => self.releases.one_before().ok(),
        };
        let Some(chosen) = chosen.map(|release| release.version) else {
            return;
        };
        if kind == HoldKind::Rollback && self.releases.is_live(chosen) && !self.releases.wants_file() {
            return;
        }
        self.now += 1;
        self.releases.hold_release(self.now, kind, (chosen, false));
        self.store();
        self.compare();
        if !self.releases.is_live(chosen) {
            self.copy(chosen);
        }
    }

    fn restart(&mut self) {
        (self.serves, self.canary, self.cut_short) = (None, None, false);
        self.releases = serde_json::from_str(&self.stored).unwrap();
        self.judge();
    }

    fn step(&mut self, step: Step) {
        let cut_short = self.cut_short;
        match step {
            Step::Edit(content) => {
                self.file = content;
                self.judge();
            }
            Step::Reload => self.judge(),
            Step::Interpreter => {
                self.interpreter += 1;
                self.judge();
            }
            Step::Rollback(content) => self.hold(HoldKind::Rollback, content),
            Step::Pin(content) => self.hold(HoldKind::Pin, content),
            Step::Unpin => {
                self.releases.end_hold();
                self.store();
                if self.releases.wants_file() {
                    self.judge();
                }
            }
            Step::Share(share) => self.share = share,
            Step::Canary => {
                if let Ok(copy) = self.releases.try_canary(RULES) {
                    self.store();
                    self.copy(copy);
                }
            }
            Step::Promote => {
                if let Ok(copy) = self.releases.promote(self.now) {
                    self.store();
                    self.copy(copy);
                }
            }
            Step::StopCanary => self.end_canary(None),
            Step::CanaryFails if self.canary.is_some() => {
                if let Some(why) = self.releases.canary_failed() {
                    self.end_canary(Some(why));
                }
                self.store();
            }
            Step::CanaryFails => {}
            Step::Restart => self.restart(),
            Step::CutShort => return self.cut_short = true,
        }
        if cut_short {
            self.restart();
        }
    }

    fn end_canary(&mut self, fault: Option<String>) {
        if self.releases.end_canary(self.now, fault).is_ok() {
            self.store();
            self.compare();
        }
    }

    fn check(&self) {
        let canary = self.releases.canary();
        let begun = canary.filter(|canary| canary.version.0[0] < BROKEN);
        assert_eq!(
            self.canary,
            begun.map(|canary| canary.version),
            "it gets calls: {canary:?}"
        );
        if let Some(canary) = canary {
            assert!(
                self.serves.is_some_and(|serves| serves != canary.version),
                "another one serves beside it"
            );
            assert!(self.releases.needed().contains(&canary.version));
        }
        let serves = self.serves;
        assert_eq!(self.releases.serving(), serves);
        assert_eq!(
            serde_json::from_str::<Releases>(&self.stored).unwrap().list,
            self.releases.list,
            "nothing is lost"
        );
        let content = serves.map(|version| version.0[0]);
        if let Some(hold) = self.releases.hold() {
            assert!(
                serves == Some(hold.version) || hold.version.0[0] >= BROKEN,
                "the held one serves: {hold:?}"
            );
            assert!(self.releases.needed().contains(&hold.version));
        } else if self.file < BROKEN && canary.is_none_or(|canary| canary.version.0[0] != self.file) {
            assert_eq!(content, Some(self.file), "the file serves");
        }
        if self.ever_good && self.releases.hold().is_none() {
            assert!(
                content.is_some_and(|content| content < BROKEN),
                "the last good one serves"
            );
        }
        let states = self
            .releases
            .list()
            .iter()
            .map(|release| self.releases.state(release, None));
        let serving = states.filter(|state| *state == ReleaseState::Serving).count();
        assert_eq!(serving, usize::from(serves.is_some()), "one serves at most");
    }
}

proptest! {
    #[test]
    fn what_serves_is_the_held_release_or_else_the_newest_good_one(steps in steps()) {
        let mut world = World::new();
        world.judge();
        for step in steps {
            let cut_short = matches!(step, Step::CutShort);
            world.step(step);
            if !cut_short {
                world.check();
            }
        }
    }
}

/// A function whose file had these contents, one after the other.
fn after(contents: &[u8]) -> World {
    let mut world = World::new();
    for content in contents {
        world.step(Step::Edit(*content));
    }
    world
}

fn served(world: &World) -> Option<u8> {
    world.serves.map(|version| version.0[0])
}

#[test]
fn names_may_be_short_but_not_ambiguous() {
    let world = after(&[0, 1, 2]);
    let mut releases = world.releases;
    assert_eq!(releases.named("0100").map(|release| release.version), Ok(version(1, 0)));
    assert_eq!(
        releases
            .named(&format!("sha256:{}", version(2, 0).hex()))
            .unwrap()
            .version,
        version(2, 0)
    );
    let ambiguous = releases.named("0").unwrap_err().to_string();
    assert!(ambiguous.contains("000000000000, 010000000000"), "{ambiguous}");
    assert_eq!(releases.named("ff"), Err(NoRelease::Unknown("ff".to_owned())));
    assert!(releases.named("").is_err());
    releases.keep_only(&[version(0, 0), version(2, 0)]);
    assert!(releases.named("01").is_err());
    let kept = releases.clone();
    releases.keep_only(&[version(0, 0), version(2, 0)]);
    assert_eq!(releases, kept);
}

#[test]
fn a_restart_with_the_same_file_changes_nothing_that_is_stored() {
    let mut releases = Releases::default();
    let file = (version(0, 0), key(0));
    releases.file_installed(1, file, ("f.sh", Tried::default()));
    assert!(!releases.is_stored_like(&Releases::default()));
    releases.serves(file.0);
    let text = serde_json::to_string(&releases).unwrap();
    let mut later: Releases = serde_json::from_str(&text).unwrap();
    later.file_installed(2, file, ("f.sh", Tried::default()));
    later.serves(file.0);
    assert!(later.is_stored_like(&releases) && serde_json::to_string(&later).unwrap() == text);
    later.file_installed(3, (version(1, 0), key(1)), ("f.sh", Tried::default()));
    assert!(!later.is_stored_like(&releases));
}

/// R11: after a kill, the release that served last may be gone.
#[test]
fn content_is_checked_first_only_where_another_release_serves() {
    let (old, new) = (
        (Version([1; 32]), Version([1; 32])),
        (Version([2; 32]), Version([2; 32])),
    );
    let mut releases = Releases::default();
    assert!(!releases.is_checked_first(old.1), "nothing has ever served");
    releases.file_installed(1, old, ("f.py", Tried::default()));
    releases.serves(old.0);
    assert!(releases.is_checked_first(new.1) && !releases.is_checked_first(old.1));
    let stored = serde_json::to_string(&releases).unwrap();
    let mut restarted: Releases = serde_json::from_str(&stored).unwrap();
    restarted.file_installed(2, new, ("f.py", Tried::default()));
    assert!(
        !restarted.is_checked_first(new.1),
        "a check would leave callers without the function"
    );
    restarted.serves(old.0);
    assert!(restarted.is_checked_first(new.1), "the release before serves meanwhile");
}

/// Rollbacks without a name, after edits.
#[test]
fn a_rollback_goes_back_from_the_release_that_serves() {
    let cases: [(&[u8], u8, bool); 4] = [
        (&[0, 1], 0, true),
        (&[0, 1, INVALID], 0, true),
        // The hold ends the trials of the file.
        (&[0, 1, BROKEN], 1, true),
        (&[0, INVALID], 0, false),
    ];
    for (contents, expected, is_held) in cases {
        let mut world = after(contents);
        world.step(Step::Rollback(None));
        world.check();
        assert_eq!(served(&world), Some(expected), "{contents:?}");
        assert_eq!(world.releases.hold().is_some(), is_held, "{contents:?}");
    }
    let mut wrong = after(&[0, 1]);
    assert_eq!(wrong.releases.file_is_wrong((version(9, 0), key(9))), None);
    let before = wrong.releases.one_before().map(|release| release.version);
    assert_eq!(before, Ok(version(0, 0)), "its syntax is wrong");
}
