//! Reads one table from both ends as far as possible; rows between two damaged places are reached by key.

use super::{all, execute};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

/// How much of a table was read; of two parts of a table, the smaller value is that of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Read {
    /// Some rows could not be read.
    Some,
    All,
}

/// A table and the columns of its key.
#[derive(Debug)]
pub(crate) struct DatabaseTable {
    pub(crate) name: &'static str,
    key: &'static [&'static str],
    /// Whether the rows lie in the order of a number of their own, not of the key.
    is_by_rowid: bool,
}

impl DatabaseTable {
    pub(crate) const fn new(name: &'static str, key: &'static [&'static str]) -> Self {
        Self {
            name,
            key,
            is_by_rowid: false,
        }
    }

    /// Returns the table as one that is not `WITHOUT ROWID`.
    pub(crate) const fn by_rowid(self) -> Self {
        Self {
            is_by_rowid: true,
            ..self
        }
    }

    /// Deletes the rows whose columns `select` the function `read` cannot read. Returns the number of deleted rows.
    pub(crate) fn prune(
        &self,
        db: &Connection,
        select: (&str, &str),
        read: &dyn Fn(&Row<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<usize> {
        self.delete(db, &self.unreadable(db, select, read)?)
    }

    /// Returns the keys of the rows whose columns `select` the function `read` cannot read.
    pub(crate) fn unreadable(
        &self,
        db: &Connection,
        (select, condition): (&str, &str),
        read: &dyn Fn(&Row<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Vec<Vec<Value>>> {
        let sql = format!(
            "SELECT {select}, {} FROM {} {condition}",
            self.key.join(", "),
            self.name
        );
        let mut unreadable = Vec::new();
        let mut statement = db.prepare(&sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if read(row).is_err() {
                let key = (columns - self.key.len()..columns).map(|column| row.get::<_, Value>(column));
                unreadable.push(key.collect::<rusqlite::Result<Vec<_>>>()?);
            }
        }
        Ok(unreadable)
    }

    /// Deletes the rows with these keys, after they were read: SQLite does not define whether a running query sees such a change. Returns
    /// the number of keys.
    pub(crate) fn delete(&self, db: &Connection, keys: &[Vec<Value>]) -> rusqlite::Result<usize> {
        let key = self
            .key
            .iter()
            .enumerate()
            .map(|(n, key)| format!("{key} = ?{}", n + 1));
        let key = key.collect::<Vec<_>>().join(" AND ");
        let delete = format!("DELETE FROM {} WHERE {key}", self.name);
        for key in keys {
            db.prepare_cached(&delete)?.execute(params_from_iter(key))?;
        }
        Ok(keys.len())
    }
}

/// Copies rows of a table from a damaged database to a new one. Errors that it returns come from the new database.
pub(crate) struct Copier<'a> {
    table: &'a DatabaseTable,
    from: &'a Connection,
    to: &'a Connection,
    /// The columns that both databases have; new columns have defaults.
    columns: Vec<String>,
    insert: String,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(table: &'a DatabaseTable, from: &'a Connection, to: &'a Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT name FROM pragma_table_info(?1)";
        let of = |db| all::<String, Vec<_>>(db, sql, [table.name], |row| row.get(0));
        // If the columns cannot be read, assume the newest ones: each statement fails if that is wrong.
        let old = of(from).unwrap_or_default();
        let new = of(to)?.into_iter();
        let columns: Vec<_> = new.filter(|name| old.is_empty() || old.contains(name)).collect();
        let places = (1..=columns.len()).map(|n| format!("?{n}")).collect::<Vec<_>>();
        // Both directions may reach a row, and an index may name it again: a row that is there already is left as it
        // is.
        let insert = format!(
            "INSERT OR IGNORE INTO {} ({}) VALUES ({})",
            table.name,
            columns.join(", "),
            places.join(", ")
        );
        Ok(Self {
            table,
            from,
            to,
            columns,
            insert,
        })
    }

    /// Copies all readable rows, forwards and, if that breaks off, backwards. Returns whether it read all of them.
    pub(crate) fn all(&self) -> rusqlite::Result<Read> {
        // In the order of the table itself: the order of an index would need both an undamaged index and an undamaged
        // table.
        let key: &[&str] = match self.table.is_by_rowid {
            true => &["rowid"],
            false => self.table.key,
        };
        let read = |direction: &str| {
            let order: Vec<_> = key.iter().map(|key| format!("{key} {direction}")).collect();
            self.rows(&format!("NOT INDEXED ORDER BY {}", order.join(", ")), None)
        };
        let forwards = read("ASC")?;
        if forwards == Read::Some {
            read("DESC")?;
        }
        Ok(forwards)
    }

    /// Copies the rows that belong to the invocations of the new database.
    pub(crate) fn of_each_invocation(&self) -> rusqlite::Result<()> {
        let mut ids = self.to.prepare("SELECT id FROM invocation")?;
        let mut ids = ids.query([])?;
        while let Some(row) = ids.next()? {
            let id: Vec<u8> = row.get(0)?;
            self.rows("WHERE invocation = ?1", Some(&id))?;
        }
        Ok(())
    }

    /// Returns whether the new database has a row with this key (of one column).
    fn has(&self, key: &[u8]) -> rusqlite::Result<bool> {
        let sql = format!("SELECT 1 FROM {} WHERE {} = ?1", self.table.name, self.table.key[0]);
        self.to.prepare_cached(&sql)?.exists([key])
    }

    /// Copies the rows whose keys (of one column) an index lists, if they can be read and are not copied yet.
    pub(crate) fn by_index(&self, index: &str, condition: &str) -> rusqlite::Result<Read> {
        let of_key = format!("WHERE {} = ?1", self.table.key[0]);
        self.named(index, condition, &mut |key| match self.has(key)? {
            true => Ok(()),
            false => self.rows(&of_key, Some(key)).map(drop),
        })
    }

    /// Returns how many keys an index without a condition lists that the new database lacks. With a condition SQLite
    /// would look up each row, and would not list missing ones.
    pub(crate) fn missing(&self, index: &str) -> rusqlite::Result<(u64, Read)> {
        let mut missing = 0;
        let read = self.named(index, "", &mut |key| {
            missing += u64::from(!self.has(key)?);
            Ok(())
        })?;
        Ok((missing, read))
    }

    /// Calls `each` with the keys (of one column) that an index lists.
    fn named(
        &self,
        index: &str,
        condition: &str,
        each: &mut dyn FnMut(&[u8]) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Read> {
        let key = self.table.key[0];
        let mut read = Read::All;
        for direction in ["ASC", "DESC"] {
            // The order has to be that of the index: for another one SQLite would first read all keys, also those of
            // damaged pages.
            let first = if condition.is_empty() {
                format!("function {direction}, ")
            } else {
                String::new()
            };
            let sql = format!(
                "SELECT {key} FROM {} INDEXED BY {index} {condition} ORDER BY {first}{key} {direction}",
                self.table.name
            );
            let (read_here, is_end) = self.walk(&sql, None, &mut |row| match row.get::<_, Vec<u8>>(0) {
                Ok(key) => each(&key).map(|()| Read::All),
                Err(_) => Ok(Read::Some),
            })?;
            read = read.min(read_here);
            if is_end {
                break;
            }
        }
        Ok(read)
    }

    /// Copies the rows that match a condition. A row that cannot be read or that the new database refuses counts as not
    /// read.
    fn rows(&self, condition: &str, key: Option<&[u8]>) -> rusqlite::Result<Read> {
        let select = format!(
            "SELECT {} FROM {} {condition}",
            self.columns.join(", "),
            self.table.name
        );
        let (read, _) = self.walk(&select, key, &mut |row| {
            let values = (0..self.columns.len()).map(|column| row.get::<_, Value>(column));
            let Ok(values) = values.collect::<rusqlite::Result<Vec<_>>>() else {
                return Ok(Read::Some);
            };
            match execute(self.to, &self.insert, params_from_iter(values)) {
                Ok(_) => Ok(Read::All),
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(Read::Some),
                Err(error) => Err(error),
            }
        })?;
        Ok(read)
    }

    /// Calls `each` with the rows that a statement finds in the damaged database. Returns whether all were read, and whether it came to
    /// their end.
    fn walk(
        &self,
        sql: &str,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<Read>,
    ) -> rusqlite::Result<(Read, bool)> {
        let broken_off = Ok((Read::Some, false));
        let Ok(mut statement) = self.from.prepare_cached(sql) else {
            return broken_off;
        };
        let Ok(mut rows) = statement.query(params_from_iter(key)) else {
            return broken_off;
        };
        let mut read = Read::All;
        for _ in 0..most_rows(self.from) {
            match rows.next() {
                Ok(Some(row)) => read = read.min(each(row)?),
                Ok(None) => return Ok((read, true)),
                Err(_) => break,
            }
        }
        broken_off
    }
}

/// Returns the most rows that a database can have: a damaged tree with a cycle is given up after that many.
fn most_rows(db: &Connection) -> u64 {
    /// Bytes of the shortest row, including its pointer in the page.
    const ROW_MIN: u64 = 4;
    let path = db.path().unwrap_or_default();
    let bytes = |suffix| std::fs::metadata(format!("{path}{suffix}")).map_or(0, |meta| meta.len());
    (bytes("") + bytes("-wal")) / ROW_MIN
}
