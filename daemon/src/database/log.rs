//! Reads a write-ahead log of SQLite, and writes one anew whose frames are damaged. Opens no file and decides nothing about a
//! database.
//!
//! ```text
//! header (32 bytes: magic, version, page size, number, two salts, checksum)
//! frame  (24 bytes: page, pages after a commit or 0, the two salts, checksum) + page
//! frame  ...
//! ```
//! The checksum of a frame covers all frames before it. SQLite takes the first frame whose salts or checksum are wrong for the
//! end of the log: after a checkpoint it writes from the beginning again, over frames with the salts of before. So SQLite
//! cannot tell a damaged frame from an old one; [`LogEnd`] can. Source: "Database File Format", section 4, of SQLite.

use std::io::{self, Read, Write};

const HEADER: usize = 32;
const FRAME: usize = 24;
/// The first word of a log; with its last bit, the words of the checksums are big-endian.
const MAGIC: u32 = 0x377f_0682;
/// The version of the format.
const FORMAT: u32 = 3_007_000;
/// The page size of all databases of fnd: SQLite's default.
pub(crate) const PAGE: usize = 4096;
/// How many times the log may have begun anew since its end was recorded. It is recorded after each commit of fnd, and only a
/// kill or another program comes between; a log of another database fits by chance once in four million times.
const NEWER_MAX: u32 = 1024;

/// The end of a log at a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The salts of the log. Each time the log begins anew, the first grows by one and the second is random.
    pub(crate) salts: [u32; 2],
    pub(crate) frames: u32,
}

/// The beginning of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogHeader {
    /// There is none: the log is empty.
    Absent,
    /// It is not what was written.
    Damaged,
    /// The salts.
    Whole([u32; 2]),
}

/// A log as SQLite would read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogScan {
    pub(crate) header: LogHeader,
    /// Number of frames up to the last commit that SQLite would find.
    pub(crate) committed: u32,
}

impl LogEnd {
    /// Returns what is missing in a log, as text for people; nothing if the log has all that was recorded.
    pub(crate) fn missing_in(&self, found: &LogScan) -> Option<String> {
        let frames = self.frames;
        if frames == 0 {
            return None;
        }
        match found.header {
            LogHeader::Absent => Some(format!("its log, with {frames} pages, is gone")),
            LogHeader::Damaged => Some(format!("the header of its log, with {frames} pages, is damaged")),
            LogHeader::Whole(salts) if salts == self.salts => (found.committed < frames).then(|| {
                let committed = found.committed;
                format!("its log is damaged after {committed} of {frames} pages")
            }),
            // The log begins anew only when all of it is in the database.
            LogHeader::Whole([first, _]) if (1..=NEWER_MAX).contains(&first.wrapping_sub(self.salts[0])) => None,
            LogHeader::Whole(_) => Some(format!("its log, with {frames} pages, was replaced by another one")),
        }
    }
}

/// The running checksum of a log.
#[derive(Clone, Copy)]
struct Checksum {
    sums: [u32; 2],
    is_big_endian: bool,
}

impl Checksum {
    /// Adds bytes, a multiple of 8.
    fn add(&mut self, bytes: &[u8]) {
        let word = |bytes: [u8; 4]| match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        };
        let [mut first, mut second] = self.sums;
        for &[a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
            first = first.wrapping_add(word([a, b, c, d])).wrapping_add(second);
            second = second.wrapping_add(word([e, f, g, h])).wrapping_add(first);
        }
        self.sums = [first, second];
    }

    fn frame(&mut self, frame: &[u8]) {
        self.add(&frame[..8]);
        self.add(&frame[FRAME..]);
    }
}

/// Returns the number at a place; 0 behind the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes)
}

fn pair(bytes: &[u8], at: usize) -> [u32; 2] {
    [number(bytes, at), number(bytes, at + 4)]
}

/// Returns the salts of a header, which may be damaged.
pub(crate) fn salts(header: &[u8; HEADER]) -> [u32; 2] {
    pair(header, 16)
}

/// The header of a log.
struct Beginning {
    salts: [u32; 2],
    page: usize,
    checksum: Checksum,
}

impl Beginning {
    fn of(header: &[u8; HEADER]) -> Option<Self> {
        let (magic, page) = (number(header, 0), number(header, 8));
        let mut checksum = Checksum {
            sums: [0; 2],
            is_big_endian: magic & 1 == 1,
        };
        checksum.add(&header[..24]);
        let is_whole = magic & !1 == MAGIC && number(header, 4) == FORMAT && pair(header, 24) == checksum.sums;
        let fits = page.is_power_of_two() && (512..=65536).contains(&page);
        Some(Self {
            salts: salts(header),
            page: usize::try_from(page).ok().filter(|_| is_whole && fits)?,
            checksum,
        })
    }
}

/// Reads a whole block; `false` at the end of the file.
pub(crate) fn fill(from: &mut impl Read, block: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(block) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a log as SQLite does.
pub(crate) fn scan(mut from: impl Read) -> io::Result<LogScan> {
    let found = |header| LogScan { header, committed: 0 };
    let mut header = [0; HEADER];
    if !fill(&mut from, &mut header)? {
        return Ok(found(LogHeader::Absent));
    }
    let Some(Beginning {
        salts,
        page,
        mut checksum,
    }) = Beginning::of(&header)
    else {
        return Ok(found(LogHeader::Damaged));
    };
    let mut scan = found(LogHeader::Whole(salts));
    let mut frame = vec![0; FRAME + page];
    let mut count = 0;
    while fill(&mut from, &mut frame)? {
        checksum.frame(&frame);
        if pair(&frame, 8) != salts || pair(&frame, 16) != checksum.sums || number(&frame, 0) == 0 {
            break;
        }
        count += 1;
        // Only the last frame of a commit has the size of the database here.
        if number(&frame, 4) > 0 {
            scan.committed = count;
        }
    }
    Ok(scan)
}

/// Writes a log with all frames that the file has of this end, each with the checksum that SQLite expects: a damaged page is
/// read as it is, and so are all frames behind it. `pages` is the number of pages of the database; a damaged frame for a page
/// that neither the database nor the log can have is left out.
///
/// # Errors
/// From reading and writing.
pub(crate) fn write_anew(mut from: impl Read, end: &LogEnd, pages: u32, mut to: impl Write) -> io::Result<()> {
    let mut header = [0; HEADER];
    if !fill(&mut from, &mut header)? {
        return Ok(());
    }
    let old = Beginning::of(&header);
    let page = old.as_ref().map_or(PAGE, |old| old.page);
    let is_big_endian = old.map_or(cfg!(target_endian = "big"), |old| old.checksum.is_big_endian);
    put(&mut header, 0, MAGIC | u32::from(is_big_endian));
    put(&mut header, 4, FORMAT);
    put(&mut header, 8, u32::try_from(page).unwrap_or(0));
    put_pair(&mut header, 16, end.salts);
    let mut new = Checksum {
        sums: [0; 2],
        is_big_endian,
    };
    new.add(&header[..24]);
    put_pair(&mut header, 24, new.sums);
    to.write_all(&header)?;
    let mut write = |frame: &mut [u8]| {
        put_pair(frame, 8, end.salts);
        new.frame(frame);
        put_pair(frame, 16, new.sums);
        to.write_all(frame)
    };
    // The checksum as it stands in the file: a frame that agrees with the frame before it is whole.
    let mut stored = Checksum {
        sums: pair(&header, 24),
        is_big_endian,
    };
    let (mut frame, mut last) = (vec![0; FRAME + page], Vec::new());
    let mut largest = pages.max(1);
    for _ in 0..end.frames {
        if !fill(&mut from, &mut frame)? {
            break;
        }
        stored.frame(&frame);
        let is_whole = stored.sums == pair(&frame, 16);
        // The checksum in the file goes on from here. Otherwise all frames behind a damaged one would count as damaged.
        stored.sums = pair(&frame, 16);
        let number_of_page = number(&frame, 0);
        if is_whole {
            largest = largest.max(number_of_page).max(number(&frame, 4));
        } else if (1..=largest.saturating_add(end.frames)).contains(&number_of_page) {
            put(&mut frame, 4, 0); // whether a commit ended here is not known; one that ends later has this frame, too
        } else {
            continue;
        }
        // A frame is held back until another one follows: the last one of all has to end a commit.
        if !last.is_empty() {
            write(&mut last)?;
        }
        last.clone_from(&frame);
    }
    if !last.is_empty() {
        // A commit ended here.
        let pages = largest.max(number(&last, 0)).max(number(&last, 4));
        put(&mut last, 4, pages);
        write(&mut last)?;
    }
    to.flush()
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

fn put_pair(bytes: &mut [u8], at: usize, [first, second]: [u32; 2]) {
    put(bytes, at, first);
    put(bytes, at + 4, second);
}

#[cfg(test)]
mod tests;
