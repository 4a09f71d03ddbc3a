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
        let next = self
            .releases
            .file_installed(self.now, (file, key(self.file)), ("f.py", true));
        self.store();
        match next {
            Next::Serve => self.offer(file),
            Next::Hold(copy) => self.copy(copy),
            Next::First(copy) => self.copy(copy),
        }
    }

    fn copy(&mut self, asked: Version) {
        let new = version(asked.0[0], self.interpreter);
        let may = self.releases.copy_installed(asked, new);
        self.store();
        if may {
            self.offer(new);
        }
        if self.releases.copy_done(asked) {
            self.judge();
        }
    }

    /// Gives a version to the supervisor.
    fn offer(&mut self, new: Version) {
        if self.serves == Some(new) {
            return;
        }
        if self.serves.is_none() || new.0[0] < BROKEN && !self.cut_short {
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
        self.releases.hold_release(self.now, kind, chosen);
        self.store();
        if !self.releases.is_live(chosen) {
            self.copy(chosen);
        }
    }

    fn restart(&mut self) {
        (self.serves, self.cut_short) = (None, false);
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
            Step::Restart => self.restart(),
            Step::CutShort => return self.cut_short = true,
        }
        if cut_short {
            self.restart();
        }
    }

    fn check(&self) {
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
        } else if self.file < BROKEN {
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
    let back = |content| Some(format!("rolled back to {}", short(version(content, 0))));
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
