//! A ledger of release 0.1.0 is migrated, and has the schema of a new one then.

use super::damage::open_again;
use super::*;
use fnd_core::verify_report::{Examined, FindingLevel};
use rusqlite::Connection;

/// The statements by which fnd 0.1.0 made its ledger (schema 3).
const OF_0_1_0: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE function (
        name TEXT PRIMARY KEY,
        enabled INTEGER NOT NULL DEFAULT 1,
        runs INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        last_invocation BLOB,
        last_attempt INTEGER
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE invocation (
        id BLOB PRIMARY KEY,
        function TEXT NOT NULL,
        trigger TEXT NOT NULL,
        state TEXT NOT NULL,
        durable INTEGER NOT NULL,
        accepted_ms INTEGER NOT NULL,
        started_ms INTEGER,
        ended_ms INTEGER,
        attempts INTEGER NOT NULL,
        polls INTEGER NOT NULL,
        reason TEXT,
        message TEXT NOT NULL,
        exhausted TEXT,
        next_attempt_ms INTEGER,
        version BLOB,
        timeout_ms INTEGER,
        not_before_ms INTEGER,
        expires_ms INTEGER,
        deadline_ms INTEGER,
        content_type TEXT,
        context TEXT,
        traceparent TEXT,
        -- 1: JSON, 0: other bytes, null: no result. The bytes are here, or in `body` if they are many.
        result_json INTEGER,
        result BLOB
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX by_function ON invocation (function, id);
    CREATE INDEX unfinished ON invocation (id) WHERE state IN ('queued', 'running', 'waiting', 'polling');
    CREATE TABLE attempt (
        invocation BLOB NOT NULL,
        n INTEGER NOT NULL,
        poll INTEGER NOT NULL,
        worker INTEGER,
        version BLOB,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL,
        duration_us INTEGER NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        exit_code INTEGER,
        signal INTEGER,
        cpu_us INTEGER NOT NULL,
        memory_peak_bytes INTEGER,
        peak_of_largest INTEGER NOT NULL,
        throttled_us INTEGER NOT NULL,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        dropped_bytes INTEGER NOT NULL,
        next_attempt_ms INTEGER,
        PRIMARY KEY (invocation, n)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE body (
        invocation BLOB NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('payload', 'result')),
        data BLOB NOT NULL,
        PRIMARY KEY (invocation, kind)
    ) STRICT;
    -- Contents that have run as `load`. Never deleted from: they must not run again.
    CREATE TABLE load (function TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (function, hash)) WITHOUT ROWID, STRICT;
    ALTER TABLE invocation ADD COLUMN request TEXT;
    ALTER TABLE invocation ADD COLUMN response TEXT;
    ALTER TABLE attempt ADD COLUMN cold INTEGER;
    ALTER TABLE attempt ADD COLUMN scope_worker INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE invocation ADD COLUMN priority INTEGER;
    ALTER TABLE invocation ADD COLUMN key TEXT;
    ALTER TABLE invocation ADD COLUMN origin BLOB;
    ALTER TABLE invocation ADD COLUMN dead INTEGER;
    ALTER TABLE function ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX by_key ON invocation (function, key, id) WHERE key IS NOT NULL;
    CREATE INDEX dead ON invocation (id) WHERE dead = 1;
    CREATE INDEX failed ON invocation (id) WHERE state IN ('failed', 'interrupted');
    CREATE INDEX failed_of ON invocation (function, id) WHERE state IN ('failed', 'interrupted');
    CREATE TRIGGER dies AFTER UPDATE OF dead ON invocation WHEN NEW.dead IS 1 AND OLD.dead IS NOT 1 BEGIN
        INSERT INTO function (name, dead) VALUES (NEW.function, 1) ON CONFLICT (name) DO UPDATE SET dead = dead + 1;
    END;
    CREATE TRIGGER revives AFTER UPDATE OF dead ON invocation WHEN OLD.dead IS 1 AND NEW.dead IS NOT 1 BEGIN
        UPDATE function SET dead = dead - 1 WHERE name = OLD.function;
    END;
    CREATE TRIGGER goes AFTER DELETE ON invocation WHEN OLD.dead IS 1 BEGIN
        UPDATE function SET dead = dead - 1 WHERE name = OLD.function;
    END;
    -- Installed versions that are on the disk, oldest first, 32 bytes each.
    CREATE TABLE IF NOT EXISTS versions (function TEXT PRIMARY KEY, installed BLOB NOT NULL) WITHOUT ROWID, STRICT;
";

/// Rows in each table: an end with a result, a dead letter with its payload, a long result, and queued work.
const ROWS: &str = "
    INSERT INTO meta VALUES ('schema', '3'), ('in-flight', '17');
    INSERT INTO function VALUES ('hello', 0, 3, 1, unhex('00000000000100000000000000000000'), 1, 0);
    INSERT INTO versions VALUES ('hello', unhex(printf('%064d', 7)));
    INSERT INTO load VALUES ('once', unhex(printf('%064d', 9)));
    INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, ended_ms, attempts, polls,
            reason, message, exhausted, version, content_type, result_json, result, request, response, priority, key)
        VALUES (unhex('00000000000100000000000000000000'), 'hello', 'http', 'succeeded', 0, 1, 2, 3, 1, 0, 'ok', 'm', NULL,
                unhex(printf('%064d', 7)), NULL, 1, x'7b7d', NULL, '{\"status\":201}', NULL, NULL),
            (unhex('00000000000200000000000000000000'), 'hello', 'manual', 'failed', 1, 1, 2, 3, 1, 0, 'exit-1', 'm',
                'retries', NULL, 'text/plain', NULL, NULL, NULL, NULL, 5, NULL),
            (unhex('00000000000300000000000000000000'), 'hello', 'manual', 'succeeded', 1, 1, 2, 3, 1, 0, 'ok', '', NULL,
                NULL, NULL, 0, NULL, NULL, NULL, 5, NULL),
            (unhex('00000000000400000000000000000000'), 'later', 'manual', 'queued', 1, 4, NULL, NULL, 0, 0, NULL, '',
                NULL, NULL, 'application/json', NULL, NULL, NULL, NULL, -3, 'once');
    UPDATE invocation SET dead = 1 WHERE state = 'failed';
    INSERT INTO attempt VALUES (unhex('00000000000100000000000000000000'), 1, 0, 7, unhex(printf('%064d', 7)), 2, 3, 900, 'ok',
        'm', 0, NULL, 4, 5, 0, 6, 7, 8, 9, NULL, 1, 1);
    INSERT INTO body (invocation, kind, data) VALUES
        (unhex('00000000000200000000000000000000'), 'payload', x'64656164'),
        (unhex('00000000000300000000000000000000'), 'result', x'6c6f6e67'),
        (unhex('00000000000400000000000000000000'), 'payload', x'7b2261223a317d');
";

/// Makes a ledger as 0.1.0 left it.
fn of_0_1_0() -> tempfile::TempDir {
    let state = directory();
    let db = Connection::open(state.path().join(FILE)).unwrap();
    db.pragma_update(None, "auto_vacuum", 2).unwrap();
    db.execute_batch(OF_0_1_0).unwrap();
    db.execute_batch(ROWS).unwrap();
    state
}

fn row(n: u128) -> InvocationId {
    InvocationId(n << 80)
}

/// Returns the queued work that a ledger has, with its payloads.
fn queued(ledger: &Ledger) -> Vec<(InvocationId, Vec<u8>)> {
    let unfinished = ledger.opened.restored.unfinished.iter();
    let queued = unfinished.map(|found| {
        let data = found.accepted.payload.data.as_ref().expect("its payload is kept");
        (found.record.id, data.bytes().unwrap().to_vec())
    });
    queued.collect()
}

fn waiting() -> Vec<(InvocationId, Vec<u8>)> {
    vec![(row(4), b"{\"a\":1}".to_vec())]
}

#[test]
fn a_ledger_of_0_1_0_is_migrated_and_all_its_rows_are_read() {
    let state = of_0_1_0();
    // The second time it is not migrated any more.
    for _ in 0..2 {
        let ledger = Ledger::open(state.path());
        let restored = &ledger.opened.restored;
        assert_eq!(queued(&ledger), waiting());
        let accepted = &restored.unfinished[0].accepted;
        assert_eq!((accepted.priority, accepted.durable), (-3, true));
        assert_eq!(accepted.key.as_ref().map(|key| key.as_str()), Some("once"));
        assert_eq!((&accepted.payload.request, &accepted.payload.cause), (&None, &None));
        assert_eq!(restored.disabled, [name("hello")]);
        assert!(ledger.opened.disabled.is_empty(), "0.1.0 did not store the user");
        assert_eq!(restored.counts[0], (name("hello"), 3, 1));
        assert_eq!(restored.loaded.first().unwrap().0, name("once"));
        let mut version = [0; 32];
        version[31] = 7;
        assert_eq!(ledger.opened.versions[&name("hello")], [Version(version)]);
        assert_eq!(ledger.opened.last_runs[0].attempt.invocation, row(1));

        let (record, attempts) = ledger.get(row(1)).unwrap();
        let result = record.result.unwrap();
        assert_eq!((result.json, &*result.data), (true, &b"{}"[..]));
        assert_eq!(result.response.unwrap().status, Some(201));
        assert_eq!(
            (record.version, record.reason),
            (Some(Version(version)), Some(Reason::Ok))
        );
        assert_eq!((attempts[0].cold, attempts[0].usage.scope_worker), (Some(true), true));
        assert_eq!((attempts[0].usage.cpu_us, attempts[0].usage.dropped_bytes), (4, 9));
        // A long result has no checksum there.
        assert_eq!(&*ledger.get(row(3)).unwrap().0.result.unwrap().data, b"long");

        let letters = wait(ledger.opened.reader.dead_letters(unfiltered())).unwrap().letters;
        assert_eq!(letters.len(), 1);
        assert_eq!(
            (letters[0].invocation.id, letters[0].payload.as_deref()),
            (row(2), Some("dead"))
        );
        assert_eq!(ledger.opened.writer.dead_letters_of(&name("hello")), 1);
        assert_eq!((ledger.opened.unfollowed.len(), ledger.opened.alerts.len()), (0, 0));
        assert_eq!(
            (ledger.opened.schedules.marks.len(), ledger.opened.releases.len()),
            (0, 0)
        );
        assert_eq!(ledger.opened.messages, []);
        ledger.stop();
    }
}

/// Returns the tables, indexes and triggers in their order, with their root pages and their SQL without comments and spaces.
fn schema_of(db: &Connection) -> Vec<(String, u32, String)> {
    let mut statement = db
        .prepare("SELECT type || ' ' || name, rootpage, ifnull(sql, '') FROM sqlite_schema ORDER BY rowid")
        .unwrap();
    let normal = |sql: String| {
        let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
    };
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, normal(row.get(2)?))))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

/// Salvage gives a damaged database the first page of a new one: also the root pages must be the same.
#[test]
fn a_migrated_ledger_has_the_schema_of_a_new_one() {
    let (migrated, new) = (of_0_1_0(), directory());
    let [migrated, new] =
        [migrated.path(), new.path()].map(|state| schema_of(&schema::open(&state.join(FILE)).unwrap()));
    assert_eq!(migrated, new);
}

/// A list of three or more words in the condition of an index would be one, twice for each row that changes.
#[test]
fn no_temporary_table_is_made_for_the_condition_of_an_index() {
    let db = schema::in_memory().unwrap();
    for change in [
        "UPDATE invocation SET state = 'running' WHERE id = ?1",
        "UPDATE message SET step = 'closed' WHERE invocation = ?1",
    ] {
        let mut explained = db.prepare(&format!("EXPLAIN {change}")).unwrap();
        let steps = explained.query_map([[0_u8; 16]], |row| row.get::<_, String>(1));
        let steps: Vec<_> = steps.unwrap().map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step == "IdxDelete"), "{change}: {steps:?}");
        assert!(steps.iter().all(|step| step != "OpenEphemeral"), "{change}: {steps:?}");
    }
}

/// Work that the index does not list would be lost, and a migration does not make this index anew.
#[test]
fn a_ledger_of_0_1_0_whose_index_lacks_queued_work_is_not_migrated() {
    let state = of_0_1_0();
    let file = state.path().join(FILE);
    let db = Connection::open(&file).unwrap();
    db.execute_batch(
        "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '''queued''', '''none''') WHERE name = 'unfinished';
        PRAGMA writable_schema = RESET;
        REINDEX unfinished;
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, '''none''', '''queued''') WHERE name = 'unfinished';",
    )
    .unwrap();
    drop(db);
    let error = schema::open(&file).err().unwrap();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

/// Writes over a page of a database.
fn damage(state: &Path, page: usize) {
    let path = state.join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0x5a);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_ledger_of_0_1_0_is_salvaged_before_and_after_its_migration() {
    for is_migrated in [false, true] {
        let state = of_0_1_0();
        if is_migrated {
            Ledger::open(state.path()).stop();
        }
        let attempts = {
            let db = Connection::open(state.path().join(FILE)).unwrap();
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'attempt'";
            db.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        damage(state.path(), attempts);
        let ledger = open_again(state.path());
        let health = ledger.opened.writer.health();
        let note = health.set_aside.expect("the damaged one is aside");
        assert!(note.contains("rows may be missing in: attempt;"), "{note}");
        assert_eq!(health.hold, None, "no queued work is missing");
        assert_eq!(queued(&ledger), waiting());
        assert_eq!(ledger.opened.restored.disabled, [name("hello")]);
        ledger.stop();

        // Then the first page, with the schema.
        damage(state.path(), 1);
        let ledger = open_again(state.path());
        assert_eq!(queued(&ledger), waiting());
        ledger.stop();
    }
}

/// A migrated ledger is salvaged with the first page of a new one.
#[test]
fn the_first_page_of_a_migrated_ledger_can_be_replaced() {
    let state = of_0_1_0();
    Ledger::open(state.path()).stop();
    damage(state.path(), 1);
    let ledger = open_again(state.path());
    assert_eq!(queued(&ledger), waiting());
    assert_eq!(ledger.opened.writer.health().hold, None);
    assert_eq!(ledger.get(row(1)).unwrap().1.len(), 1);
    ledger.stop();
}

#[test]
fn a_ledger_of_0_1_0_is_verified_and_copied_before_and_after_its_migration() {
    let state = of_0_1_0();
    let file = state.path().join(FILE);
    for unfinished in [&[][..], &[row(4).to_string()]] {
        let mut examined = Examined::default();
        examine::file(&file, &mut examined);
        assert!(
            examined.findings.iter().all(|found| found.level == FindingLevel::Ok),
            "{:?}",
            examined.findings
        );
        // Its four invocations, and a script that has run as `load`. Before the migration no rows are read.
        assert_eq!((examined.rows, &*examined.unfinished), (Some(5), unfinished));

        let (other, mut copy) = (directory(), copy(state.path()).unwrap());
        std::io::copy(&mut copy, &mut std::fs::File::create(other.path().join(FILE)).unwrap()).unwrap();
        let restored = Ledger::open(other.path());
        assert_eq!(queued(&restored), waiting());
        restored.stop();
        Ledger::open(state.path()).stop();
    }
}

#[test]
fn a_ledger_of_a_development_version_is_refused_untouched() {
    for schema in ["2", "4", "6", "9"] {
        let state = of_0_1_0();
        let file = state.path().join(FILE);
        let db = Connection::open(&file).unwrap();
        db.execute("UPDATE meta SET value = ?1 WHERE key = 'schema'", [schema])
            .unwrap();
        drop(db);
        let before = std::fs::read(&file).unwrap();
        for site in [site(state.path()), damage::setting_aside(state.path())] {
            let error = open(site, Retention::default(), &[], |_| {}).err().unwrap();
            assert!(
                matches!(&error, OpenError::Older { found, .. } if found == schema),
                "{error}"
            );
            assert!(error.to_string().contains("development version"), "{error}");
            assert_eq!(std::fs::read(&file).unwrap(), before);
        }
    }
}
