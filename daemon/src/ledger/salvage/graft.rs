//! Copies a database whose beginning is damaged, and gives the copy the first page and the schema of a new database.
//! This works because the trees of every ledger's tables begin at the same pages, also after a migration.
//!
//! `auto_vacuum` keeps the roots of all trees at the beginning of the file, in the order of their creation. `VACUUM`
//! creates them in another order, tables first. So there are two layouts, and the one that fits better is used.

use crate::database;
use crate::database::log::PAGE;
use crate::ledger::schema;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Offset of the schema's tree in the first page.
const TREE: usize = 100;
/// Types of pages in a table's tree: inner pages, which list other pages, and leaves, which contain rows.
const INNER: u8 = 5;
const LEAF: u8 = 13;

/// The kind of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Graft {
    /// Whether to use the layout of a database that was rewritten by `VACUUM`.
    vacuumed: bool,
    /// Whether to copy the write-ahead log, which may contain a first page of its own.
    with_log: bool,
}

/// All kinds, the best first.
pub(super) const ALL: [Graft; 4] = [
    Graft::new(false, true),
    Graft::new(true, true),
    Graft::new(false, false),
    Graft::new(true, false),
];

impl Graft {
    const fn new(vacuumed: bool, with_log: bool) -> Self {
        Self { vacuumed, with_log }
    }

    /// Returns whether the copy lacks a log that the database has.
    pub(super) fn leaves_log_out(self, from: &Path) -> bool {
        let log = std::fs::metadata(database::beside(from, "-wal"));
        !self.with_log && log.is_ok_and(|meta| meta.len() > 0)
    }

    /// Creates the copy beside a path. Returns its files, the database first; none if the file does not have the size
    /// of a database.
    ///
    /// # Errors
    /// From reading and writing.
    pub(super) fn make(self, from: &Path, beside: &Path) -> io::Result<Vec<PathBuf>> {
        let kind = format!("-{}{}", u8::from(self.vacuumed), u8::from(self.with_log));
        let name = |suffix: &str| database::beside(beside, &format!("{kind}{suffix}"));
        let pages = u32::try_from(std::fs::metadata(from)?.len() / PAGE as u64);
        let Some(pages) = pages.ok().filter(|pages| *pages >= 2) else {
            return Ok(Vec::new());
        };
        let template = self.template(&name("-template"))?;
        let Some((first, more)) = grafted(&template, pages) else {
            return Ok(Vec::new());
        };
        let copy = name("");
        // SQLite creates the `-shm` file when it reads.
        let mut files = vec![copy.clone(), name("-shm")];
        let mut to = File::options().write(true).create(true).truncate(true).open(&copy)?;
        io::copy(&mut File::open(from)?, &mut to)?;
        // The end of a file that is no whole page is cut off: SQLite takes whole pages only.
        to.set_len(u64::from(pages) * PAGE as u64)?;
        to.write_all_at(&first, 0)?;
        to.seek(SeekFrom::End(0))?;
        for page in &more {
            to.write_all(page)?;
        }
        let log = name("-wal");
        // An earlier try may have left a log here, which SQLite would read together with this copy.
        let _ = std::fs::remove_file(&log);
        let log_of = database::beside(from, "-wal");
        if self.with_log && log_of.exists() {
            std::fs::copy(log_of, &log)?;
        }
        files.push(log);
        Ok(files)
    }

    /// Returns the pages of a new database.
    fn template(self, path: &Path) -> io::Result<Vec<u8>> {
        let _ = std::fs::remove_file(path);
        let sql = if self.vacuumed { "VACUUM" } else { "" };
        let made = schema::build(path).and_then(|db| db.execute_batch(sql));
        made.map_err(io::Error::other)?;
        let bytes = std::fs::read(path)?;
        std::fs::remove_file(path)?;
        Ok(bytes)
    }
}

/// Returns the pages of the schema from a template, for a database of this many pages; nothing if the schema's tree has
/// more than two levels.
fn grafted(template: &[u8], pages: u32) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let page = |number: u32| {
        let at = usize::try_from(number).ok()?.checked_sub(1)? * PAGE;
        template.get(at..at + PAGE)
    };
    let mut first = page(1)?.to_vec();
    let mut more = Vec::new();
    let number_at = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let mut places = Vec::new();
    if first[TREE] == INNER {
        let cells = usize::from(u16::from_be_bytes([first[TREE + 3], first[TREE + 4]]));
        for cell in 0..cells {
            let at = TREE + 12 + 2 * cell;
            places.push(usize::from(u16::from_be_bytes([*first.get(at)?, *first.get(at + 1)?])));
        }
        // The last child of an inner page stands in the head of the page and not in a cell (SQLite, "Database File
        // Format", section 1.6).
        places.push(TREE + 8);
    }
    for at in places {
        let below = page(number_at(&first, at)?)?;
        if below[0] != LEAF {
            return None;
        }
        more.push(below.to_vec());
        let number = pages.checked_add(u32::try_from(more.len()).ok()?)?;
        first.get_mut(at..at + 4)?.copy_from_slice(&number.to_be_bytes());
    }
    let all = pages.checked_add(u32::try_from(more.len()).ok()?)?;
    // Set the size and no free pages: the list of free pages of the damaged file is lost, and nothing is written to the
    // copy.
    for (at, number) in [(28, all), (32, 0), (36, 0)] {
        first[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    // SQLite uses the size only if these two counters are equal.
    let changes: [u8; 4] = first[24..28].try_into().ok()?;
    first[92..96].copy_from_slice(&changes);
    Some((first, more))
}
