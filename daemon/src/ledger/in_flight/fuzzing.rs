//! Entry points of the fuzzer for the table of attempts that have begun.

use super::old_table;
use super::slot::{self, TableHeader};
use crate::ledger::schema;
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

thread_local! {
    static DB: RefCell<Connection> = RefCell::new(schema::open(Path::new(":memory:")).expect("a database in memory"));
}

/// Returns the bytes of a table with these slot contents, the header first, and with right checksums.
#[must_use]
pub fn slots(contents: &[&[u8]]) -> Vec<u8> {
    let slot = |content: &&[u8]| {
        let content = &content[..content.len().min(slot::LENGTH - 6)];
        let mut bytes = u16::try_from(content.len()).expect("cut above").to_le_bytes().to_vec();
        bytes.extend_from_slice(content);
        let mut slot = crc32fast::hash(&bytes).to_le_bytes().to_vec();
        slot.extend(bytes);
        slot.resize(slot::LENGTH, 0);
        slot
    };
    contents.iter().flat_map(slot).collect()
}

/// Stores a table in an empty history, twice.
///
/// # Panics
/// If storing fails, or if the second time changes the rows.
pub fn in_flight(table: &[u8]) {
    let header = table.get(..slot::LENGTH).map(slot::decode::<TableHeader>);
    let (boot, nonce) = match header {
        Some(Ok(Some(header))) => (header.boot, header.nonce),
        _ => ("boot".to_owned(), 1),
    };
    DB.with_borrow_mut(|db| {
        let mut settle = || {
            let old = old_table::read(&file(table)).expect("a file in memory can be read");
            let transaction = db.transaction().expect("a transaction begins");
            let running = old_table::settle(&transaction, (&old, &BTreeSet::new()), &boot, nonce).expect("what is left is stored");
            transaction.commit().expect("what is left is stored");
            (running.len(), rows(db))
        };
        assert_eq!(settle(), settle());
        db.execute_batch("DELETE FROM invocation; DELETE FROM attempt; DELETE FROM function; DELETE FROM meta WHERE key = 'in-flight'")
            .expect("the tables are there");
    });
}

fn file(bytes: &[u8]) -> File {
    let file = rustix::fs::memfd_create("in-flight", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
    let mut file = File::from(file);
    file.write_all(bytes).expect("it is written");
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).expect("it is a file");
    file
}

fn rows(db: &Connection) -> Vec<String> {
    let sql = "SELECT hex(id) || state || attempts || ifnull(reason, '') || function FROM invocation
        UNION ALL SELECT hex(invocation) || n || reason || message FROM attempt";
    let mut statement = db.prepare(sql).expect("the tables are there");
    let rows = statement.query_map([], |row| row.get(0)).expect("they can be read");
    rows.map(|row| row.expect("a row is text")).collect()
}
