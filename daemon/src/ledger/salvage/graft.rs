//! A copy of a database whose beginning is damaged, with the first page and the schema of a new one: the trees of the tables
//! begin at the same pages, since every ledger is made by the same statements.
//!
//! `auto_vacuum` keeps the roots of all trees at the beginning of the file, in the order in which they were made. `VACUUM` makes
//! them in another order, tables first; so there are two forms, and the one that fits better is used.

use crate::ledger::schema;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Page size of every ledger: SQLite's own default.
const PAGE: usize = 4096;
/// Where the tree of the schema begins in the first page.
const TREE: usize = 100;
/// Types of pages of a table's tree: those that name others, and those with rows.
const INNER: u8 = 5;
const LEAF: u8 = 13;

/// How a copy is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Graft {
    /// The database was written anew at some time.
    vacuumed: bool,
    /// With its log of changes, which may have a first page of its own.
    with_log: bool,
}

/// The best come first.
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

    /// Makes the copy beside a path. Returns its files, the database first; none where the file is no database's size.
    ///
    /// # Errors
    /// From reading and writing.
    pub(super) fn make(self, from: &Path, beside: &Path) -> io::Result<Vec<PathBuf>> {
        let name = |suffix: &str| {
            let mut name = beside.as_os_str().to_owned();
            name.push(format!(
                "-{}{}{suffix}",
                u8::from(self.vacuumed),
                u8::from(self.with_log)
            ));
            PathBuf::from(name)
        };
        let pages = std::fs::metadata(from)?.len() / PAGE as u64;
        let Ok(pages) = u32::try_from(pages) else {
            return Ok(Vec::new());
        };
        if pages < 2 {
            return Ok(Vec::new());
        }
        let template = self.template(&name("-template"))?;
        let Some(grafted) = grafted(&template, pages) else {
            return Ok(Vec::new());
        };
        let copy = name("");
        // SQLite makes the last one when it reads.
        let mut files = vec![copy.clone(), name("-shm")];
        let mut to = File::options().write(true).create(true).truncate(true).open(&copy)?;
        io::copy(&mut File::open(from)?, &mut to)?;
        to.set_len(u64::from(pages) * PAGE as u64)?;
        to.write_all_at(&grafted.first, 0)?;
        to.seek(SeekFrom::End(0))?;
        for page in &grafted.more {
            to.write_all(page)?;
        }
        let log = name("-wal");
        let _ = std::fs::remove_file(&log);
        let mut log_of = from.as_os_str().to_owned();
        log_of.push("-wal");
        if self.with_log && Path::new(&log_of).exists() {
            std::fs::copy(log_of, &log)?;
        }
        files.push(log);
        Ok(files)
    }

    /// Returns the pages of a new database.
    fn template(self, path: &Path) -> io::Result<Vec<u8>> {
        let _ = std::fs::remove_file(path);
        let made = schema::build(path).and_then(|db| {
            if self.vacuumed {
                db.execute_batch("VACUUM")
            } else {
                Ok(())
            }
        });
        made.map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        std::fs::remove_file(path)?;
        Ok(bytes)
    }
}

/// Pages that take the place of the first one, and pages behind the last one.
struct Grafted {
    first: Vec<u8>,
    more: Vec<Vec<u8>>,
}

/// Takes the schema out of a template, for a database of so many pages. Nothing where it is more than two levels deep.
fn grafted(template: &[u8], pages: u32) -> Option<Grafted> {
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
    // Size, then no free pages: those of the damaged file are known to nobody any more, and nothing is written to the copy.
    for (at, number) in [(28, all), (32, 0), (36, 0)] {
        first[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    // The size counts where these two are the same.
    let changes: [u8; 4] = first[24..28].try_into().ok()?;
    first[92..96].copy_from_slice(&changes);
    Some(Grafted { first, more })
}
