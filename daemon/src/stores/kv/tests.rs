//! The database against a naive model, and what happens at its limits, after a kill and after damage.

use super::store::KvStore;
use super::tables::{VERSION, asides};
use super::{FILE, StateStore, examine};
use crate::stores::database::StorePlaces;
use fnd_core::api::StateKeys;
use fnd_core::kv::{BYTES_MAX, KvCondition, KvRefusal, KvRequest, KvResponse};
use fnd_core::verify_report::{Examined, FindingLevel};
use fnd_manifest::state_key::StateKey;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: u64 = 1_795_248_000_000;

fn key(text: &str) -> StateKey {
    StateKey::parse(text).unwrap()
}

fn put(text: &str, value: &str, condition: KvCondition) -> KvRequest {
    KvRequest::Put {
        key: key(text),
        value: value.to_owned(),
        condition,
    }
}

fn delete(text: &str, condition: KvCondition) -> KvRequest {
    KvRequest::Delete {
        key: key(text),
        condition,
    }
}

fn keys(scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> KvRequest {
    KvRequest::Keys {
        scope: scope.to_owned(),
        prefix: prefix.to_owned(),
        after: after.map(str::to_owned),
        limit,
    }
}

fn places(directory: &Path) -> StorePlaces {
    StorePlaces {
        state: directory.to_owned(),
        run: directory.to_owned(),
    }
}

fn open(directory: &Path) -> KvStore {
    KvStore::open(&places(directory), NOW).unwrap()
}

/// Confirms what a salvage has read, as `fndctl verify --repair` does.
fn confirm(directory: &Path) {
    let db = Connection::open(directory.join(FILE)).unwrap();
    assert!(super::salvage::confirm(&db).unwrap().is_some());
}

/// Asks for one thing in a transaction of its own.
fn ask(store: &mut KvStore, ask: KvRequest) -> Result<KvResponse, KvRefusal> {
    store.transact(&[ask], NOW).unwrap().remove(0)
}

/// Returns the version that was written.
fn version(told: Result<KvResponse, KvRefusal>) -> Result<u64, KvRefusal> {
    told.map(|told| match told {
        KvResponse::Written(written) => written.version,
        other => panic!("{other:?}"),
    })
}

fn value(store: &mut KvStore, text: &str) -> Option<(u64, String)> {
    match ask(store, KvRequest::Get(key(text))) {
        Ok(KvResponse::Entry(entry)) => Some((entry.version, entry.value.get().to_owned())),
        Err(KvRefusal::Missing) => None,
        other => panic!("{other:?}"),
    }
}

fn page(told: Result<KvResponse, KvRefusal>) -> StateKeys {
    match told {
        Ok(KvResponse::Keys(keys)) => keys,
        other => panic!("{other:?}"),
    }
}

#[test]
fn versions_grow_and_are_not_used_again_after_a_delete() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let number = "12345678901234567890.10";
    assert_eq!(version(ask(&mut store, put("a/n", number, KvCondition::New))), Ok(1));
    assert_eq!(
        value(&mut store, "a/n"),
        Some((1, number.to_owned())),
        "as it was written"
    );
    assert_eq!(
        version(ask(&mut store, put("a/n", "2", KvCondition::Version(1)))),
        Ok(2)
    );
    let stale = version(ask(&mut store, put("a/n", "3", KvCondition::Version(1))));
    assert_eq!(stale, Err(KvRefusal::Conflict(Some(2))));
    assert_eq!(version(ask(&mut store, delete("a/n", KvCondition::Any))), Ok(2));
    assert_eq!(
        version(ask(&mut store, delete("a/n", KvCondition::Any))),
        Err(KvRefusal::Missing)
    );
    drop(store);
    let mut store = open(directory.path());
    assert_eq!(value(&mut store, "a/n"), None);
    assert_eq!(version(ask(&mut store, put("a/n", "4", KvCondition::Any))), Ok(3));
    let stale = version(ask(&mut store, put("a/n", "5", KvCondition::Version(2))));
    assert_eq!(stale, Err(KvRefusal::Conflict(Some(3))));
}

#[test]
fn requests_of_one_transaction_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let asks = [
        put("a/n", "1", KvCondition::New),
        put("a/n", "2", KvCondition::New),
        KvRequest::Get(key("a/n")),
        put("a/n", "3", KvCondition::Version(1)),
        delete("a/n", KvCondition::Version(2)),
    ];
    let told = store.transact(&asks, NOW).unwrap();
    assert!(matches!(told[1], Err(KvRefusal::Conflict(Some(1)))));
    assert!(matches!(&told[2], Ok(KvResponse::Entry(entry)) if entry.value.get() == "1"));
    assert_eq!(version(told[3].clone()), Ok(2));
    assert_eq!(version(told[4].clone()), Ok(2));
    assert_eq!(value(&mut store, "a/n"), None);
}

#[test]
fn keys_are_listed_page_by_page() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    for name in ["a/cart", "a/cart/1", "a/cart/2", "a/carz", "a/b", "b/cart/3", "a/ü"] {
        ask(&mut store, put(name, "\"x\"", KvCondition::Any)).unwrap();
    }
    let names = |page: &StateKeys| page.keys.iter().map(|view| view.key.clone()).collect::<Vec<_>>();
    let first = page(ask(&mut store, keys("a", "cart", None, 2)));
    assert_eq!(
        (names(&first), first.next.as_deref()),
        (vec!["cart".into(), "cart/1".into()], Some("cart/1"))
    );
    assert_eq!(first.keys[0].bytes, 1 + 4 + 3);
    let second = page(ask(&mut store, keys("a", "cart", Some("cart/1"), 2)));
    assert_eq!((names(&second), second.next), (vec!["cart/2".to_owned()], None));
    assert_eq!(names(&page(ask(&mut store, keys("a", "", None, 100)))).len(), 6);
    assert_eq!(names(&page(ask(&mut store, keys("c", "", None, 100)))).len(), 0);
    let Ok(KvResponse::Scopes(scopes)) = ask(&mut store, KvRequest::Scopes) else {
        panic!("scopes")
    };
    let counts: Vec<_> = scopes
        .scopes
        .iter()
        .map(|scope| (scope.scope.as_str(), scope.keys))
        .collect();
    assert_eq!(counts, [("a", 6), ("b", 1)]);
}

#[test]
fn a_full_state_refuses_what_needs_room_and_can_be_emptied() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).base.close();
    // Rows that claim to be large, so that the test writes no 256 MiB.
    let db = Connection::open(directory.path().join(FILE)).unwrap();
    let sql = "INSERT INTO entry (scope, key, version, changed_ms, bytes, checksum, value)
        VALUES ('a', 'large', 5, 0, ?1, ?2, '1')";
    let checksum = u64::from(crc32fast::hash(b"1"));
    db.execute(sql, [BYTES_MAX - 10, checksum]).unwrap();
    drop(db);
    let mut store = open(directory.path());
    assert_eq!(
        version(ask(&mut store, put("b/k", "12345678", KvCondition::Any))),
        Ok(1)
    );
    let more = version(ask(&mut store, put("b/k2", "1", KvCondition::Any)));
    assert_eq!(more, Err(KvRefusal::Bytes(4)));
    assert_eq!(
        version(ask(&mut store, put("b/k", "1", KvCondition::Any))),
        Ok(2),
        "less always fits"
    );
    assert_eq!(version(ask(&mut store, delete("a/large", KvCondition::Any))), Ok(5));
    assert_eq!(version(ask(&mut store, put("b/k2", "1", KvCondition::Any))), Ok(6));
}

#[test]
fn a_damaged_file_is_set_aside_and_a_newer_one_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let mut store = open(directory.path());
    for number in 0..500 {
        let name = format!("a/{number}");
        ask(
            &mut store,
            put(&name, &format!("\"{}\"", "x".repeat(300)), KvCondition::Any),
        )
        .unwrap();
    }
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 8192].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let mut examined = Examined::default();
    examine::file(&path, &mut examined);
    assert_eq!((examined.findings[0].level, examined.rows), (FindingLevel::Error, None));
    let mut store = open(directory.path());
    assert!(store.hold().unwrap().unwrap().contains("could be read"));
    let mut examined = Examined::default();
    examine::site(&places(directory.path()), false, &mut examined);
    let levels: Vec<FindingLevel> = examined.findings.iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [FindingLevel::Error, FindingLevel::Warning], "{examined:?}");
    confirm(directory.path());
    assert_eq!(store.hold().unwrap(), None);
    let read = page(ask(&mut store, keys("a", "", None, 1000))).keys;
    assert!(
        read.len() > 400 && read.iter().all(|view| view.version == NOW),
        "{read:?}"
    );
    let aside = asides(directory.path());
    assert_eq!(aside.len(), 1);
    assert!(std::fs::read(&aside[0]).unwrap() == bytes, "nothing of it is lost");
    let mut examined = Examined::default();
    examine::site(&places(directory.path()), false, &mut examined);
    let levels: Vec<FindingLevel> = examined.findings.iter().map(|finding| finding.level).collect();
    assert_eq!(levels, [FindingLevel::Ok, FindingLevel::Warning], "{examined:?}");
    drop(store);
    for (version, words) in [(VERSION + 1, "a newer fnd"), (VERSION - 1, "a development version")] {
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        drop(db);
        let error = KvStore::open(&places(directory.path()), NOW).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(asides(directory.path()).len(), 1);
}

#[tokio::test]
async fn callers_get_their_answers_and_a_copy_has_what_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateStore::start(places(directory.path()), || NOW, || ()).unwrap();
    let all = (0..200).map(|_| state.ask(put("a/n", "1", KvCondition::Any)));
    let told = futures_util::future::join_all(all).await;
    let mut versions: Vec<u64> = told.into_iter().map(|told| version(told.unwrap()).unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=200).collect::<Vec<_>>());
    let mut copy = Vec::new();
    examine::copy(directory.path()).unwrap().read_to_end(&mut copy).unwrap();
    let restored = tempfile::tempdir().unwrap();
    std::fs::write(restored.path().join(FILE), &copy).unwrap();
    let mut examined = Examined::default();
    examine::file(&restored.path().join(FILE), &mut examined);
    assert_eq!(examined.rows, Some(1), "{examined:?}");
    assert_eq!(value(&mut open(restored.path()), "a/n"), Some((200, "1".to_owned())));
    assert_eq!(state.problems().count(), 0);
    state.stop();
    assert_eq!(state.ask(KvRequest::Scopes).await.unwrap_err(), "fnd is stopping");
}

#[tokio::test]
async fn what_cannot_be_opened_is_a_problem_until_it_can() {
    static CHANGES: AtomicU64 = AtomicU64::new(0);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    std::fs::create_dir(&path).unwrap();
    let changed = || {
        CHANGES.fetch_add(1, Ordering::Relaxed);
    };
    let state = StateStore::start(places(directory.path()), || NOW, changed).unwrap();
    state.ask(KvRequest::Scopes).await.unwrap_err();
    assert_eq!(
        state.problems().map(|(code, _)| code).collect::<Vec<_>>(),
        ["state-failing"]
    );
    std::fs::remove_dir(&path).unwrap();
    state.ask(put("a/n", "1", KvCondition::Any)).await.unwrap().unwrap();
    assert_eq!(state.problems().count(), 0);
    // One that was set aside is shown until somebody has moved it away.
    let aside = directory.path().join("state.db.damaged-20261124T000000000Z");
    std::fs::write(&aside, "").unwrap();
    state.look_again();
    state.ask(KvRequest::Scopes).await.unwrap().unwrap();
    let problems: Vec<_> = state.problems().collect();
    assert_eq!(problems[0].0, "state-set-aside");
    assert!(problems[0].1.contains("20261124T000000000Z"));
    std::fs::remove_file(&aside).unwrap();
    state.look_again();
    state.ask(KvRequest::Scopes).await.unwrap().unwrap();
    assert_eq!(state.problems().count(), 0);
    assert_eq!(CHANGES.load(Ordering::Relaxed), 4);
}

/// A step of the model.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8, KvCondition),
    Delete(u8, KvCondition),
    Get(u8),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let condition = || {
        prop_oneof![
            3 => Just(KvCondition::Any),
            1 => Just(KvCondition::New),
            3 => (1..6_u64).prop_map(KvCondition::Version),
        ]
    };
    let step = prop_oneof![
        6 => (0..3_u8, any::<u8>(), condition()).prop_map(|(key, value, condition)| Step::Put(key, value, condition)),
        3 => (0..3_u8, condition()).prop_map(|(key, condition)| Step::Delete(key, condition)),
        2 => (0..3_u8).prop_map(Step::Get),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_map_does(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path());
        let mut model: BTreeMap<u8, (u64, u8)> = BTreeMap::new();
        let mut deleted = 0;
        for step in steps {
            let holds = |condition: KvCondition, found: Option<u64>| match condition {
                KvCondition::Any => true,
                KvCondition::New => found.is_none(),
                KvCondition::Version(version) => found == Some(version),
            };
            match step {
                Step::Put(key, value, condition) => {
                    let found = model.get(&key).map(|(version, _)| *version);
                    let expected = if holds(condition, found) {
                        let version = found.unwrap_or(deleted) + 1;
                        model.insert(key, (version, value));
                        Ok(version)
                    } else {
                        Err(KvRefusal::Conflict(found))
                    };
                    let told = ask(&mut store, put(&format!("a/{key}"), &value.to_string(), condition));
                    prop_assert_eq!(version(told), expected);
                }
                Step::Delete(key, condition) => {
                    let found = model.get(&key).map(|(version, _)| *version);
                    let expected = match found {
                        None => Err(KvRefusal::Missing),
                        Some(version) if holds(condition, found) => {
                            model.remove(&key);
                            deleted = deleted.max(version);
                            Ok(version)
                        }
                        Some(_) => Err(KvRefusal::Conflict(found)),
                    };
                    prop_assert_eq!(version(ask(&mut store, delete(&format!("a/{key}"), condition))), expected);
                }
                Step::Get(key) => {
                    let expected = model.get(&key).map(|(version, value)| (*version, value.to_string()));
                    prop_assert_eq!(value(&mut store, &format!("a/{key}")), expected);
                }
                Step::Reopen => {
                    drop(store);
                    store = open(directory.path());
                }
            }
        }
        let listed = page(ask(&mut store, keys("a", "", None, 100)));
        let listed: Vec<_> = listed.keys.iter().map(|view| (view.key.clone(), view.version)).collect();
        let expected: Vec<_> = model.iter().map(|(key, (version, _))| (key.to_string(), *version)).collect();
        prop_assert_eq!(listed, expected);
    }
}

#[test]
fn a_state_that_cannot_be_used_is_tried_again_without_a_request() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("later");
    let (changes, changed) = std::sync::mpsc::channel();
    let places = StorePlaces {
        state: directory.clone(),
        run: root.path().to_owned(),
    };
    let store = StateStore::start(places, || NOW, move || changes.send(()).unwrap()).unwrap();
    let wait = || changed.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    wait();
    assert!(store.problems().any(|(code, _)| code == "state-failing"));
    std::fs::create_dir(&directory).unwrap();
    wait();
    assert_eq!(store.problems().count(), 0);
    store.stop();
}

/// The files of a state as a kill leaves them, or a planned stop.
struct Left {
    directory: tempfile::TempDir,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Left {
    fn by(kill: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path());
        for number in 0..40 {
            let name = format!("a/{}", number % 20);
            let value = format!("\"{number:0300}\"");
            ask(&mut store, put(&name, &value, KvCondition::Any)).unwrap();
            if number == 20 {
                let other = Connection::open(directory.path().join(FILE)).unwrap();
                other
                    .query_row("PRAGMA wal_checkpoint(passive)", [], |_| Ok(()))
                    .unwrap();
            }
        }
        let names: &[&'static str] = match kill {
            true => &["state.db", "state.db-wal", "state.db-end"],
            false => &["state.db", "state.db-end"],
        };
        let read = |directory: &Path| {
            let read = |name: &&'static str| (*name, std::fs::read(directory.join(name)).unwrap());
            names.iter().map(read).collect::<Vec<_>>()
        };
        let before = read(directory.path());
        store.base.close();
        let files = if kill { before } else { read(directory.path()) };
        for (name, bytes) in &files {
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
        Self { directory, files }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.files.iter().find(|(found, _)| *found == name).unwrap().1.clone()
    }
}

/// Each damage of each file: a start reads what it can, and nobody is told that a key has no value, or an older one, until
/// somebody confirms that. No version is used again.
#[test]
fn whatever_is_damaged_is_held_until_it_is_confirmed_and_versions_go_on() {
    for (kill, name) in [(true, "state.db-wal"), (true, "state.db"), (false, "state.db")] {
        for damage in ["a bit", "20 bytes", "truncated", "emptied", "deleted", "replaced"] {
            let what = format!("{name} {damage} {kill}");
            let left = Left::by(kill);
            let mut bytes = left.bytes(name);
            // A value, in whose bytes SQLite sees no damage. The newest is in the log; free room of a page has older ones.
            let number = if kill && name == "state.db" { 10 } else { 39 };
            let value_of = format!("{number:0300}").into_bytes();
            let at = bytes.windows(300).position(|place| place == value_of).unwrap();
            match damage {
                "a bit" => bytes[at + 50] ^= 1,
                "20 bytes" => bytes[at..at + 20].fill(0x5a),
                "truncated" => bytes.truncate(at),
                "emptied" => bytes.clear(),
                _ => {}
            }
            std::fs::write(left.path(name), bytes).unwrap();
            match damage {
                "deleted" => std::fs::remove_file(left.path(name)).unwrap(),
                // By an earlier moment, or by another log.
                "replaced" if name == "state.db" => {
                    std::fs::copy(left.path(name), left.path("other")).unwrap();
                    std::fs::rename(left.path("other"), left.path(name)).unwrap();
                }
                "replaced" => std::fs::write(left.path(name), Left::by(true).bytes(name)).unwrap(),
                _ => {}
            }
            let mut store = open(left.directory.path());
            let hold = store.hold().unwrap();
            if damage == "replaced" && !kill {
                // A person has put a whole database there, as a restore does.
                assert_eq!(hold, None, "{what}");
                continue;
            }
            // Bits of the database that its log has, too, are not read.
            if hold.is_none() {
                assert!(kill && name == "state.db", "{what}");
                assert_eq!(value(&mut store, "a/19").map(|(version, _)| version), Some(2), "{what}");
                continue;
            }
            confirm(left.directory.path());
            assert_eq!(store.hold().unwrap(), None, "{what}");
            let view = page(ask(&mut store, keys("a", "", None, 100)));
            assert!(view.keys.iter().all(|view| view.version >= NOW), "{what}: {view:?}");
            let next = version(ask(&mut store, put("a/1", "1", KvCondition::Any))).unwrap();
            assert!(next > NOW, "{what}: {next}");
            store.base.close();
            let mut store = open(left.directory.path());
            assert_eq!(store.hold().unwrap(), None, "{what}");
            assert_eq!(
                value(&mut store, "a/1").map(|(version, _)| version),
                Some(next),
                "{what}"
            );
        }
    }
    for kill in [false, true] {
        let left = Left::by(kill);
        let mut store = open(left.directory.path());
        assert_eq!(store.hold().unwrap(), None);
        assert_eq!(value(&mut store, "a/19").map(|(version, _)| version), Some(2));
    }
}

/// 200 would be said of a change that the next start does not find.
#[tokio::test]
async fn a_state_whose_files_are_changed_while_fnd_runs_is_not_used() {
    for (name, damage) in [
        ("state.db", "deleted"),
        ("state.db", "emptied"),
        ("state.db", "replaced"),
        ("state.db", "moved"),
        ("state.db-wal", "deleted"),
        ("state.db-wal", "emptied"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let state = StateStore::start(places(directory.path()), || NOW, || ()).unwrap();
        state.ask(put("a/n", "1", KvCondition::Any)).await.unwrap().unwrap();
        let (path, kept) = (directory.path().join(name), directory.path().join("kept"));
        match damage {
            "deleted" => std::fs::remove_file(&path).unwrap(),
            "emptied" => std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(0)
                .unwrap(),
            "moved" => std::fs::rename(&path, &kept).unwrap(),
            _ => {
                std::fs::copy(&path, &kept).unwrap();
                std::fs::rename(&kept, &path).unwrap();
            }
        }
        let why = state.ask(put("a/n", "2", KvCondition::Any)).await.unwrap_err();
        assert!(why.contains("while fnd was running"), "{name} {damage}: {why}");
        state.ask(KvRequest::Get(key("a/n"))).await.unwrap_err();
        assert_eq!(state.problems().next().unwrap().0, "state-failing");
        if damage == "moved" {
            std::fs::rename(&kept, &path).unwrap();
            let version = version(state.ask(put("a/n", "2", KvCondition::Any)).await.unwrap());
            assert_eq!(version, Ok(2));
        }
        state.stop();
        if damage != "moved" && name == "state.db" && damage != "replaced" {
            let mut store = open(directory.path());
            assert!(store.hold().unwrap().is_some(), "{name} {damage}");
        }
    }
}
