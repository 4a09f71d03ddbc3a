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
            AfterInstall::Hold(copy) => self.copy(copy),
            AfterInstall::First(copy) => self.copy(copy),
            AfterInstall::Canary(_) => {
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
            Copied::Canary(_) => self.offer_canary(new),
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
fn a_rollback_ends_with_the_next_edit_and_a_pin_does_not() {
    let mut world = after(&[0, 1]);
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(0));
    for step in [Step::Reload, Step::Restart, Step::Interpreter, Step::Edit(1)] {
        world.step(step);
        assert_eq!(served(&world), Some(0), "the file is as it was");
    }
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
    world.step(Step::Pin(None));
    world.step(Step::Edit(3));
    assert_eq!(served(&world), Some(2));
    assert_eq!(world.releases.waiting(), Some(version(3, 1)));
    world.step(Step::Restart);
    assert_eq!(served(&world), Some(2));
    world.step(Step::Unpin);
    assert_eq!((served(&world), world.releases.waiting()), (Some(3), None));
}

#[test]
fn going_back_twice_goes_back_two_releases() {
    let mut world = after(&[0, 1, 2]);
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(1));
    world.step(Step::Rollback(None));
    assert_eq!(served(&world), Some(0));
    assert_eq!(world.releases.one_before(), Err(NoRelease::NoneBefore(version(0, 0))));
    let whys: Vec<_> = world
        .releases
        .list()
        .iter()
        .map(|release| release.why.clone())
        .collect();
    let back = |content| Some(format!("rolled back to {}", short(version(content, 0))).into());
    assert_eq!(whys, [None, back(0), back(1)]);
}

#[test]
fn going_back_from_an_edit_that_cannot_be_loaded_ends_its_trials() {
    let mut world = after(&[0, 1, BROKEN]);
    world.step(Step::Rollback(None));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.version, hold.established), (version(1, 0), true));
    world.step(Step::Edit(INVALID));
    assert_eq!(served(&world), Some(1));
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
}

#[test]
fn a_rollback_beside_wrong_code_outlasts_a_restart() {
    let mut releases = Releases::default();
    for content in [1, 2] {
        releases.file_installed(1, (version(content, 0), key(content)), ("f.sh", Tried::default()));
        releases.serves(version(content, 0));
    }
    releases.file_installed(1, (version(3, 0), key(3)), ("f.sh", Tried::default()));
    assert_eq!(
        releases.file_is_wrong((version(3, 0), key(3))),
        None,
        "what serves goes on"
    );
    releases.hold_release(2, HoldKind::Rollback, (version(1, 0), false));
    releases.serves(version(1, 0));
    let mut after: Releases = serde_json::from_str(&serde_json::to_string(&releases).unwrap()).unwrap();
    let next = after.file_installed(3, (version(3, 0), key(3)), ("f.sh", Tried::default()));
    assert_eq!(next, AfterInstall::Hold(version(1, 0)));
    assert_eq!(after.hold().map(|hold| hold.version), Some(version(1, 0)));
}

#[test]
fn a_release_that_could_not_be_loaded_is_no_place_to_go_back_to() {
    let world = after(&[0, BROKEN, 1]);
    assert_eq!(
        world.releases.one_before().map(|release| release.version),
        Ok(version(0, 0))
    );
    let failed = world.releases.get(version(BROKEN, 0)).unwrap();
    assert_eq!(world.releases.state(failed, None), ReleaseState::Failed);
    assert_eq!(failed.error.as_deref(), Some("no such module"));
}

#[test]
fn after_a_restart_the_last_good_release_serves_beside_a_file_that_is_refused_or_cannot_be_loaded() {
    for bad in [INVALID, BROKEN] {
        let mut world = after(&[0, bad]);
        world.step(Step::Restart);
        assert_eq!(served(&world), Some(0));
        world.step(Step::Edit(1));
        assert_eq!(served(&world), Some(1));
    }
}

#[test]
fn a_hold_whose_release_cannot_be_loaded_gives_way_to_the_one_before() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Rollback(Some(BROKEN)));
    assert_eq!(served(&world), Some(1));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.kind, hold.version), (HoldKind::Pin, version(1, 0)));
    assert!(
        !world.releases.copy_refused(version(1, 0)),
        "a hold that is in force stays"
    );
}

#[test]
fn what_a_hold_has_replaced_comes_back_also_if_another_hold_comes_before_its_release_serves() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(2));
    world.step(Step::Canary);
    let before = world.releases.clone();
    let loading = version(0, 0);
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (loading, false));
    world.step(Step::Rollback(Some(BROKEN)));
    assert_eq!(served(&world), Some(1));
    assert_eq!(
        (world.releases.hold(), world.releases.canary()),
        (before.hold(), before.canary())
    );
    world.check();
}

#[test]
fn a_hold_that_comes_back_holds_the_version_that_serves_by_then() {
    let mut world = after(&[0, BROKEN, 1]);
    world.step(Step::Pin(None));
    let broken = version(BROKEN, 0);
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (broken, false));
    world.store();
    // A secret has changed when fnd starts again.
    world.interpreter = 1;
    world.restart();
    assert_eq!(world.serves, Some(version(1, 1)));
    let hold = world.releases.hold().unwrap();
    assert_eq!((hold.kind, hold.version), (HoldKind::Pin, version(1, 1)));
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
    assert!(releases.keep_only(&[version(0, 0), version(2, 0)]));
    assert!(releases.named("01").is_err() && !releases.keep_only(&[version(0, 0), version(2, 0)]));
}

#[test]
fn a_new_content_is_a_canary_until_it_is_promoted() {
    let mut world = after(&[0]);
    world.step(Step::Share(true));
    world.step(Step::Edit(1));
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    let canary = world.releases.canary().unwrap();
    assert_eq!(canary.promote_at_ms(), canary.since_ms.map(|since| since + 1000));
    let states = |world: &World| {
        let list = world.releases.list().iter();
        list.map(|release| world.releases.state(release, None))
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&world), [ReleaseState::Serving, ReleaseState::Canary]);
    for step in [Step::Reload, Step::Restart, Step::Interpreter] {
        world.step(step);
        world.check();
        assert_eq!(world.canary, Some(version(1, world.interpreter)), "{step:?}");
    }
    world.step(Step::Edit(INVALID));
    world.step(Step::Restart);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 1))));
    world.step(Step::Promote);
    assert_eq!((served(&world), world.canary), (Some(1), None));
    assert_eq!(world.releases.promote(world.now), Err(NoRelease::NoCanary));
    // An earlier release needs no canary.
    world.step(Step::Edit(0));
    assert_eq!((served(&world), world.canary), (Some(0), None));
}

#[test]
fn a_canary_with_too_many_failures_is_rolled_back_until_the_next_edit() {
    let mut world = after(&[0]);
    world.step(Step::Share(true));
    world.step(Step::Edit(1));
    world.step(Step::CanaryFails);
    world.step(Step::Restart);
    assert_eq!(world.canary, Some(version(1, 0)));
    world.step(Step::CanaryFails);
    assert_eq!((served(&world), world.canary), (Some(0), None));
    let failed = world.releases.get(version(1, 0)).unwrap();
    assert_eq!(
        failed.error.as_deref(),
        Some("as a canary, 2 runs failed; `max_failures` is 1")
    );
    let hold = world.releases.hold().unwrap();
    assert_eq!(
        (hold.kind, hold.version, hold.established),
        (HoldKind::Rollback, version(0, 0), true)
    );
    for step in [Step::Reload, Step::Restart] {
        world.step(step);
        assert_eq!((served(&world), world.canary), (Some(0), None));
    }
    world.step(Step::Edit(2));
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(2, 0))));
    world.step(Step::Rollback(None));
    assert_eq!((served(&world), world.canary), (Some(0), None));
    // A person ends the hold: the file is tried again.
    world.step(Step::Unpin);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(2, 0))));
    world.step(Step::StopCanary);
    let stopped = world.releases.get(version(2, 0)).unwrap();
    assert_eq!(world.releases.state(stopped, None), ReleaseState::Waiting);
}

#[test]
fn a_release_that_waits_behind_a_pin_gets_a_share_and_ends_the_pin_when_it_is_promoted() {
    let mut world = after(&[0]);
    assert_eq!(world.releases.try_canary(RULES), Err(NoRelease::NoneWaits));
    world.step(Step::Pin(None));
    world.step(Step::Edit(1));
    world.step(Step::Canary);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    world.step(Step::Restart);
    assert_eq!((served(&world), world.canary), (Some(0), Some(version(1, 0))));
    world.step(Step::StopCanary);
    assert_eq!(world.releases.hold().unwrap().kind, HoldKind::Pin);
    world.step(Step::Canary);
    // Another content waits now.
    world.step(Step::Edit(2));
    assert_eq!(world.canary, None);
    world.step(Step::Canary);
    world.step(Step::Promote);
    assert_eq!((served(&world), world.releases.hold()), (Some(2), None));
}

#[test]
fn a_promotion_that_fails_leaves_the_canary_and_the_pin_as_they_were() {
    let mut world = after(&[0]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(1));
    world.step(Step::Canary);
    let (canary, before) = (version(1, 0), world.releases.clone());
    assert_eq!(world.releases.promote(world.now), Ok(canary));
    assert!(!world.releases.copy_refused(canary), "no hold has ended");
    assert_eq!(world.releases, before);
    // Another release is chosen, the canary is stopped or the file changes before the canary serves.
    let restarted = |releases: &Releases| -> Releases {
        let stored = serde_json::to_string(releases).unwrap();
        serde_json::from_str(&stored).unwrap()
    };
    let pinned = |releases: &Releases| releases.hold().map(|hold| (hold.kind, hold.version));
    let pin = Some((HoldKind::Pin, version(0, 0)));
    world.releases.promote(world.now).unwrap();
    let mut stopped = restarted(&world.releases);
    assert_eq!((stopped.end_canary(9, None), pinned(&stopped)), (Ok(canary), pin));
    let mut edited = restarted(&world.releases);
    edited.file_installed(9, (version(2, 0), key(2)), ("f.py", Tried::default()));
    assert_eq!((edited.canary(), pinned(&edited)), (None, pin));
    let mut held = world.releases.clone();
    held.hold_release(9, HoldKind::Rollback, (canary, false));
    assert!(held.copy_refused(canary));
    assert_eq!((held.canary(), pinned(&held)), (before.canary(), pin));
    assert!(!world.releases.copy_refused(canary));
    // A promotion that was due is not tried again at once.
    world.releases.promote(1_000_000).unwrap();
    world.releases.copy_refused(canary);
    assert_eq!(world.releases.canary().unwrap().promote_at_ms(), None);
    // The same if it cannot be loaded.
    world.step(Step::Edit(BROKEN));
    world.step(Step::Canary);
    let before = world.releases.clone();
    world.step(Step::Promote);
    assert_eq!(served(&world), Some(0));
    assert_eq!(
        (world.releases.hold(), world.releases.canary()),
        (before.hold(), before.canary())
    );
}

#[test]
fn a_promotion_goes_on_after_a_restart_although_the_file_is_refused() {
    let mut world = after(&[0, 1]);
    world.step(Step::Rollback(None));
    world.step(Step::Canary);
    world.step(Step::Edit(INVALID));
    // The canary is another version now, which is loaded before it serves.
    world.step(Step::Interpreter);
    world.step(Step::CutShort);
    world.step(Step::Promote);
    assert_eq!((served(&world), world.releases.canary()), (Some(1), None));
    world.check();
}

#[test]
fn no_release_gets_a_share_until_the_held_one_has_served() {
    let mut world = after(&[0, 1]);
    world.step(Step::Pin(None));
    world.step(Step::Edit(2));
    let (held, waiting) = (version(0, 0), version(2, 0));
    world
        .releases
        .hold_release(world.now, HoldKind::Rollback, (held, false));
    // The supervisor tries it, and gives up that trial for a canary.
    assert_eq!(world.releases.copy_installed(held, held), Copied::Serves);
    assert_eq!(world.releases.try_canary(RULES), Err(NoRelease::HeldIsTried(held)));
    let stored = serde_json::to_string(&world.releases).unwrap();
    let mut restarted: Releases = serde_json::from_str(&stored).unwrap();
    assert_eq!(restarted.try_canary(RULES), Err(NoRelease::HeldIsTried(held)));
    world.releases.serves(held);
    assert_eq!(world.releases.try_canary(RULES), Ok(waiting));
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
